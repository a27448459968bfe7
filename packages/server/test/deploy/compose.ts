// deploy/compose.yaml in real containers: Docker Compose on the service of podman. It runs in namespaces of its own, where its ports
// collide with nothing; all of it is gone as soon as its first process is killed.
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { parse } from 'yaml';
import { until } from '../support/helpers.ts';
import { findProgram } from '../support/programs.ts';
import { briefly, environment, root } from '../support/toolchains.ts';
import { makeImage, makeNodeImage, mountsForBuilds, openPodman, podmanFolders, run } from './containers.ts';

export type Compose = {
  /** Runs commands in a shell, as a user of this machine would, and returns what they print. */
  shell(commands: string, cwd?: string): Promise<string>;
  /** podman runs health checks by systemd, which is not there. */
  isHealthy(container: string): Promise<boolean>;
  stop(): Promise<void>;
};

export type Programs = { compose: string; etcd: string; etcdctl: string; init: string };

/** What cannot be installed as a package. null: something is missing, and a warning said what. */
export async function findPrograms(without: string): Promise<Programs | null> {
  const names = ['docker compose', 'etcd', 'etcdctl', 'catatonit'] as const;
  const found: (string | null)[] = [];
  for (const name of names) found.push(await findProgram(name, without));
  const [compose, etcd, etcdctl, init] = found;
  return compose && etcd && etcdctl && init ? { compose, etcd, etcdctl, init } : null;
}

/** Copies what the images are built of: the commands of the README write into their folder. */
export function copySources(place: string): string {
  const copy = path.join(place, 'rowhouse');
  const isSource = (file: string) => !['node_modules', 'dist', '.env'].includes(path.basename(file));
  for (const name of readFileSync(path.join(root, '.dockerignore'), 'utf8').match(/(?<=^!).*/gm) ?? [])
    cpSync(path.join(root, name), path.join(copy, name), { recursive: true, filter: isSource });
  for (const name of ['.dockerignore', 'Dockerfile', 'deploy'])
    cpSync(path.join(root, name), path.join(copy, name), { recursive: true, filter: isSource });
  return copy;
}

/** Makes the images that compose.yaml and the Dockerfiles take from registries, as far as they use them. */
export async function makeBaseImages(place: string, programs: Programs): Promise<void> {
  const podman = openPodman(place);
  const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
  const baseOf = (file: string) => /^FROM (\S+)/m.exec(read(file))?.[1] ?? '';
  const { services } = parse(read('deploy/compose.yaml'), { merge: true }) as {
    services: Record<string, { image: string }>;
  };
  const imageOf = (name: string) => services[name]?.image ?? '';
  const dockerHub = (name: string) => `docker.io/library/${name}`;
  await makeNodeImage(podman, place, dockerHub(baseOf('Dockerfile')));

  expect(await run(programs.etcd, ['--version'])).toContain(imageOf('etcd1').replace(/.*:v/, ''));
  const changes = ['ENV PATH=/usr/local/bin:/usr/bin:/bin', 'CMD ["/usr/local/bin/etcd"]'];
  await makeImage(podman, { place, name: imageOf('etcd1'), changes }, async (files) => {
    const bin = path.join(files, 'usr/local/bin');
    mkdirSync(bin, { recursive: true });
    for (const name of ['etcd', 'etcdctl'] as const)
      cpSync(programs[name], path.join(bin, name), { dereference: true });
  });

  const postgres = baseOf('deploy/patroni/Dockerfile');
  const debian = path.join(place, 'debian');
  await run('debootstrap', ['--variant=minbase', postgres.replace(/.*-/, ''), debian]);
  await makePostgresImage(place, dockerHub(postgres), debian);
  const ofHaproxy = [
    'USER haproxy',
    'STOPSIGNAL SIGUSR1',
    'CMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]',
  ];
  await makeImage(
    podman,
    { place, name: dockerHub(imageOf('haproxy')), changes: ofHaproxy },
    async (files) => {
      await run('cp', ['-a', `${debian}/.`, files]);
      await run('chroot', [
        files,
        'apt-get',
        '-qq',
        'install',
        '--yes',
        '--no-install-recommends',
        'haproxy',
      ]);
    },
  );
  rmSync(debian, { recursive: true });
}

/** With the PostgreSQL of the tests of failover, at the place of the official image. */
async function makePostgresImage(place: string, name: string, debian: string): Promise<void> {
  const { postgres, python } = (await import(path.join(root, 'scripts/patroni-cluster.mjs'))) as {
    postgres: string;
    python: string;
  };
  const changes = [
    'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/18/bin',
    ...['VOLUME /var/lib/postgresql', 'STOPSIGNAL SIGINT', 'CMD ["postgres"]'],
  ];
  await makeImage(openPodman(place), { place, name, changes }, async (files) => {
    await run('cp', ['-a', `${debian}/.`, files]);
    const venv = path.join(place, 'venv');
    await run(python, ['-m', 'venv', venv]);
    const packages = path.join(files, 'opt/postgres');
    const options = ['--quiet', '--no-deps', ...briefly, '--target', packages];
    await run(path.join(venv, 'bin/pip'), ['install', ...options, postgres]);
    const programs = (readdirSync(packages, { recursive: true }) as string[]).find((file) =>
      /18\/bin\/pg_controldata$/.test(file),
    );
    const folder = path.join(files, 'usr/lib/postgresql');
    mkdirSync(folder, { recursive: true });
    symlinkSync(path.join('/opt/postgres', programs ?? '', '../..'), path.join(folder, '18'));
    const home = '/var/lib/postgresql';
    const account = ['--system', '--uid', '999', '--user-group', '--home-dir', home, 'postgres'];
    await run('chroot', [files, 'useradd', ...account]);
    const owned = ['--owner=postgres', '--group=postgres', '--mode=1777'];
    await run('chroot', [files, 'install', '--directory', ...owned, home]);
  });
}

/** Starts the service of podman, on the images of this place. `build`: in the network of the machine, for builds only. */
export async function openCompose(
  place: string,
  programs: Programs,
  { build = false } = {},
): Promise<Compose> {
  const limits = (await run('bash', ['-c', 'ulimit -Hn; ulimit -Hu'])).split('\n');
  const [files, processes] = limits.map((limit) => (limit === 'unlimited' ? '-1' : limit));
  const file = path.join(place, 'containers.conf');
  writeFileSync(
    file,
    [
      '[containers]',
      // podman's own are higher than some machines allow.
      `default_ulimits = ["nofile=${files}:${files}", "nproc=${processes}:${processes}"]`,
      ...(build ? [`netns = "host"`, `volumes = ${JSON.stringify(await mountsForBuilds(place))}`] : []),
      ...['[engine]', 'runtime = "runc"', 'cgroup_manager = "cgroupfs"', 'events_logger = "file"'],
      `init_path = "${await run('sh', ['-c', `command -v ${programs.init}`])}"`,
    ].join('\n'),
  );
  const socket = path.join(place, 'podman.sock');
  const url = `unix://${socket}`;
  rmSync(socket, { force: true });
  const folders = [...podmanFolders(place), '--network-config-dir', path.join(place, 'networks')];
  const own = ['run', 'tmp'].map((name) => path.join(place, name));
  for (const folder of own) mkdirSync(folder, { recursive: true });
  // For podman this is a machine that has just started.
  const hidden = [...own, ...(build ? [] : ['/run', '/dev/shm'])];
  const script = [
    ...['set -e', ...hidden.map((folder) => `mount -t tmpfs tmpfs '${folder}'`), 'ip link set lo up'],
    'exec podman "$@"',
  ].join('\n');
  const spaces = ['--pid', '--mount', '--ipc', '--uts', ...(build ? [] : ['--net'])];
  // Whatever ends this process, even SIGKILL, ends the containers.
  const withThisProcess = spawnSync('setpriv', ['--version']).error ? [] : ['setpriv', '--pdeathsig', 'KILL'];
  const log = path.join(place, 'podman.log');
  const stderr = openSync(log, 'w');
  const child = spawn(
    'env',
    [
      ...[...withThisProcess, 'unshare', ...spaces, '--fork', '--mount-proc', '--kill-child'],
      ...['sh', '-c', script, 'podman'],
      ...[...folders, 'system', 'service', '--time', '0', url],
    ],
    {
      env: { ...environment, CONTAINERS_CONF: file, BUILDAH_ISOLATION: 'chroot' },
      stdio: ['ignore', 'ignore', stderr],
    },
  );
  closeSync(stderr);
  const exited = new Promise((resolve) => child.once('close', resolve));
  const kill = () => child.kill('SIGKILL');
  const end = async () => {
    process.off('exit', kill);
    kill();
    await exited;
  };
  process.once('exit', kill);
  const remote = (...args: string[]) => run('podman', ['--remote', '--url', url, ...args]);
  const succeeds = (...args: string[]) =>
    remote(...args).then(
      () => true,
      () => false,
    );
  const answers = async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('podman has ended.');
    return succeeds('version');
  };
  await until('podman answers', answers, 120_000).catch(async (error: Error) => {
    await end();
    throw new Error(`${error.message}\n${readFileSync(log, 'utf8')}`);
  });
  // The first process of the namespaces.
  const inside = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim();
  const bin = makeCommands(place, programs);
  return {
    shell: (commands, cwd = path.join(place, 'rowhouse/deploy')) =>
      run(
        'nsenter',
        [`--net=/proc/${inside}/ns/net`, 'bash', '-c', `set -euo pipefail; cd '${cwd}'\n${commands}`],
        {
          ...environment,
          // BuildKit is a part of Docker.
          DOCKER_HOST: url,
          DOCKER_BUILDKIT: '0',
          PATH: `${bin}:${environment.PATH}`,
        },
      ),
    isHealthy: (container) => succeeds('healthcheck', 'run', container),
    stop: async () => {
      if (!build) await remote('rm', '--force', '--all', '--time', '0').catch(() => {});
      await end();
    },
  };
}

/** The commands of the README that a machine need not have: `docker compose`, and `edit`, which fills in .env. */
function makeCommands(place: string, { compose }: Programs): string {
  const bin = path.join(place, 'bin');
  mkdirSync(bin, { recursive: true });
  const commands = {
    docker: `shift; exec '${compose}' "$@"`,
    edit: [
      'for name in $(sed -n "s/=$//p" "$1"); do',
      '  value=$(openssl rand -hex 32); [ "$name" != PUBLIC_HOST ] || value=127.0.0.1',
      '  sed -i "s/^$name=$/$name=$value/" "$1"',
      'done',
    ].join('\n'),
  };
  for (const [name, script] of Object.entries(commands)) {
    writeFileSync(path.join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(path.join(bin, name), 0o755);
  }
  return bin;
}
