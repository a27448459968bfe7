// A real S3 server that checks signatures: versitygw, which Go builds once for all tests.
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { S3Location } from '../../src/settings/backup-url.ts';
import { freePort } from '../support/process.ts';
import { buildTimeoutMs, environment, root } from '../support/toolchains.ts';

const version = '1.8.0';
const tools = path.join(root, 'node_modules/.cache/rowhouse-tools');
const program = path.join(tools, `versitygw-${version}`);

/** Why there is no S3 server, said aloud; null if there is one. */
export async function s3SkipReason(): Promise<string | null> {
  const reason = existsSync(program) ? null : await build();
  if (reason) console.warn(`SKIPPED: ${reason}, so backups to S3 are not tested.`);
  return reason;
}

/** Several test files may build at once: each in its own folder, and the last one to finish wins. */
async function build(): Promise<string | null> {
  if (spawnSync('go', ['version'], { env: environment }).status !== 0) return 'go is not installed';
  mkdirSync(tools, { recursive: true });
  const folder = mkdtempSync(path.join(tools, 'build-'));
  try {
    // The first build takes minutes. Meanwhile the test runner must be answered.
    await promisify(execFile)('go', ['install', `github.com/versity/versitygw/cmd/versitygw@v${version}`], {
      env: { ...environment, GOFLAGS: '', GOBIN: folder },
      timeout: buildTimeoutMs,
    });
    renameSync(path.join(folder, 'versitygw'), program);
    return null;
  } catch (error) {
    return `go could not build versitygw (${String(error).trim().split('\n').at(-1)})`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export type S3Server = {
  location: S3Location;
  /** The bucket's folder on the disk. */
  bucketFolder: string;
  start(): Promise<void>;
  stop(signal?: NodeJS.Signals): Promise<void>;
};

const credentials = {
  accessKeyId: 'ROWHOUSETEST',
  secretAccessKey: 'a secret / of + the test',
  sessionToken: null,
};

export async function openS3Server(folder: string): Promise<S3Server> {
  const port = await freePort();
  const bucketFolder = path.join(folder, 'data', 'backups');
  mkdirSync(bucketFolder, { recursive: true });
  mkdirSync(path.join(folder, 'sidecar'), { recursive: true });
  let child: ChildProcess | null = null;
  const start = async () => {
    child = spawn(
      program,
      [
        '--port',
        `127.0.0.1:${port}`,
        'posix',
        '--sidecar',
        path.join(folder, 'sidecar'),
        path.join(folder, 'data'),
      ],
      {
        env: {
          ...environment,
          ROOT_ACCESS_KEY: credentials.accessKeyId,
          ROOT_SECRET_KEY: credentials.secretAccessKey,
        },
        stdio: 'ignore',
      },
    );
    while (!(await answers(port))) {
      if (child.exitCode !== null) throw new Error('The S3 server does not start.');
      await sleep(50);
    }
  };
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  await start();
  return {
    location: {
      kind: 's3',
      bucket: 'backups',
      prefix: 'rowhouse/main',
      region: 'us-east-1',
      credentials,
      endpoint: `http://127.0.0.1:${port}`,
    },
    bucketFolder,
    start,
    stop,
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
