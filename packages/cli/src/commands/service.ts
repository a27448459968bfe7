// rowhouse service: installs the service as a unit of systemd, which starts it with the machine and restarts it after a crash.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import { failure } from '../failure.ts';
import { type OutputOptions, show } from '../output.ts';
import { environmentText, type UnitOptions, unitText } from '../service-unit.ts';
import { clean, formatFields } from '../table.ts';

type InstallOptions = { user: string; data: string; start: boolean; print?: boolean };
type Step = { does: string; run(): void };

const unit = 'rowhouse';
const unitFile = `/etc/systemd/system/${unit}.service`;
const environmentFile = `/etc/${unit}/${unit}.env`;
/** Its own units begin with it, so that none of another program is replaced. */
const mark = '[Unit]\nDescription=Rowhouse\n';

export function addService(program: Command): void {
  const command = program
    .command('service')
    .summary('run the service under systemd')
    .description('Run the service under systemd: it starts with the machine, and again after a crash.');
  command
    .command('install')
    .description(
      `Create the user and the unit, enable and start it. Needs root and systemd. Settings go into ${environmentFile}. ` +
        'To change the unit, install again after an upgrade, or use systemctl edit.',
    )
    .option('--user <name>', 'user that runs the service; created if it does not exist', unit)
    .option('--data <folder>', 'data folder, below /var/lib', `/var/lib/${unit}`)
    .option('--no-start', 'do not start the service now')
    .option('--print', 'print what would be done and written, and change nothing')
    .action(install);
  command
    .command('uninstall')
    .description('Stop the service and remove the unit. Data, settings and the user stay.')
    .option('--print', 'print what would be done, and change nothing')
    .action(uninstall);
  command
    .command('status')
    .description('Show the state of the unit. The exit status is 0 if it runs, otherwise 1.')
    .option('--json', 'print the result as JSON')
    .action(status);
}

function install(options: InstallOptions): void {
  const text = unitText(unitOptions(options));
  const steps: Step[] = [
    ...(hasUser(options.user) ? [] : [createUser(options)]),
    ...(existsSync(environmentFile) ? [] : [write(environmentFile, environmentText, 0o600)]),
    write(unitFile, text, 0o644),
    run('systemctl', ['daemon-reload']),
    run('systemctl', ['enable', `${unit}.service`]),
    ...(options.start ? [run('systemctl', ['restart', `${unit}.service`])] : []),
  ];
  if (options.print) {
    process.stdout.write(`${steps.map(({ does }) => `# ${does}`).join('\n')}\n\n${text}`);
    return;
  }
  requireSystemd();
  refuseForeign();
  for (const { does, run: act } of steps) {
    process.stdout.write(`${does}\n`);
    act();
  }
  const first = options.start
    ? `The first start prints the account key and the operator key: journalctl --unit ${unit} | grep ' key '`
    : `To start it: systemctl start ${unit}`;
  process.stdout.write(`\n${first}\nSettings: ${environmentFile}\n`);
}

function uninstall({ print }: { print?: boolean }): void {
  const steps: Step[] = [
    run('systemctl', ['disable', '--now', `${unit}.service`]),
    { does: `remove ${unitFile}`, run: () => rmSync(unitFile, { force: true }) },
    run('systemctl', ['daemon-reload']),
  ];
  if (print) {
    process.stdout.write(`${steps.map(({ does }) => `# ${does}`).join('\n')}\n`);
    return;
  }
  requireSystemd();
  if (!existsSync(unitFile))
    throw failure('not_installed', `${unitFile} does not exist: nothing is installed.`);
  refuseForeign();
  const data = /^Environment=ROWHOUSE_DATA=(.*)$/m.exec(readFileSync(unitFile, 'utf8'))?.[1];
  for (const { does, run: act } of steps) {
    process.stdout.write(`${does}\n`);
    act();
  }
  process.stdout.write(
    `\nThe data is kept in ${data ?? '/var/lib/rowhouse'}, the settings in ${environmentFile}.\n`,
  );
}

function status(options: OutputOptions): void {
  const names = ['LoadState', 'ActiveState', 'SubState', 'UnitFileState', 'MainPID', 'NRestarts'];
  const more = ['ActiveEnterTimestamp', 'MemoryCurrent'];
  const args = ['show', unit, `--property=${[...names, ...more].join(',')}`];
  const { status: code, stdout } = spawnSync('systemctl', args, { encoding: 'utf8' });
  if (code !== 0) throw noSystemd();
  const facts = Object.fromEntries(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/, 2)),
  );
  if (facts.LoadState === 'not-found') {
    throw failure(
      'not_installed',
      'The service is not installed as a unit.',
      'Run: rowhouse service install',
    );
  }
  const memory = Number(facts.MemoryCurrent);
  show(options, { ok: facts.ActiveState === 'active', ...facts }, () =>
    formatFields([
      ['unit', `${unit}.service (${facts.UnitFileState})`],
      ['state', `${facts.ActiveState} (${facts.SubState})`],
      ['since', facts.ActiveEnterTimestamp || '-'],
      ['process', facts.MainPID === '0' ? '-' : (facts.MainPID ?? '-')],
      ['restarts', facts.NRestarts ?? '-'],
      ['memory', Number.isFinite(memory) ? `${Math.round(memory / 1024 ** 2)} MB` : '-'],
    ]),
  );
  if (facts.ActiveState !== 'active') process.exitCode = 1;
}

/** What ends up in the unit. Anything unusual is refused: systemd would read a space or a % differently. */
function unitOptions({ user, data, print }: InstallOptions): UnitOptions {
  if (!/^[a-z_][a-z0-9_-]{0,30}$/.test(user) || user === 'root')
    throw failure(
      'invalid_user',
      `"${clean(user)}" cannot be the user of the service.`,
      'Choose another name.',
    );
  if (!/^\/var\/lib\/[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(data))
    throw failure(
      'invalid_folder',
      `"${clean(data)}" is not a folder below /var/lib.`,
      'Choose one, without spaces.',
    );
  const [node, program] = [process.execPath, process.argv[1] ?? ''].map((file) => realpathSync(file)) as [
    string,
    string,
  ];
  for (const file of [node, program]) {
    const problem = /[^\w./@+-]/.test(file)
      ? 'contains characters that do not fit into a unit'
      : /^\/(root|home|tmp|run|var\/tmp)\//.test(file)
        ? 'is in a folder that the service cannot read'
        : null;
    if (problem && !print) {
      throw failure(
        'not_for_all_users',
        `${clean(file)} ${problem}.`,
        'Install Node.js with the packages of your system, and Rowhouse for all users: sudo npm install --prefix /opt/rowhouse <tarballs>.',
      );
    }
  }
  return { node, program, user, data, environment: environmentFile };
}

function createUser({ user, data }: InstallOptions): Step {
  const args = ['--system', '--user-group', '--home-dir', data, '--no-create-home'];
  return run('useradd', [...args, '--shell', '/usr/sbin/nologin', user]);
}

function hasUser(name: string): boolean {
  return spawnSync('id', ['-u', name]).status === 0;
}

function write(file: string, text: string, mode: number): Step {
  return {
    does: `write ${file}`,
    run: () => {
      mkdirSync(path.dirname(file), { recursive: true, mode: 0o755 });
      writeFileSync(file, text, { mode });
    },
  };
}

function run(program: string, args: string[]): Step {
  return {
    does: [program, ...args].join(' '),
    run: () => {
      const { status: code, error } = spawnSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });
      if (error?.message.includes('ENOENT')) throw failure('not_found', `${program} is not installed.`);
      if (code !== 0) throw failure('step_failed', `${program} failed: see above. Nothing else was done.`);
    },
  };
}

function requireSystemd(): void {
  if (process.platform !== 'linux' || !existsSync('/run/systemd/system')) throw noSystemd();
  if (process.getuid?.() !== 0)
    throw failure(
      'not_root',
      'This command needs root.',
      'Run it with sudo, or see what it would do with --print.',
    );
}

function noSystemd() {
  return failure(
    'no_systemd',
    'systemd does not run on this machine.',
    'Run the service in a container, or let your own supervisor call `rowhouse start`. It ends with SIGTERM ' +
      `(${constants.signals.SIGTERM}) and restarts safely after a crash.`,
  );
}

function refuseForeign(): void {
  if (existsSync(unitFile) && !readFileSync(unitFile, 'utf8').startsWith(mark))
    throw failure(
      'unit_exists',
      `${unitFile} was not written by this command.`,
      'Remove or rename it first.',
    );
}
