// kill -9 of `rowhouse restore` at each of its steps: a service never starts on half of the data, the next call clears up and
// goes on, and what is restored in the end is exact.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { bare, bin, freePort, newFolder, rowhouse, start } from './installation.ts';

const rows = 200_000;

type Moment = {
  when: string;
  isReached: (data: string) => boolean;
  /** `command`: the process of the command alone. Otherwise that of the program which it runs. */
  victim?: 'command';
};
const inData = (...names: string[]) => {
  return (data: string) => existsSync(path.join(data, ...names));
};
const isLaidOut = inData('postgres.restored', 'global');
const isReplayed = inData('postgres.restored', 'postmaster.pid');
const moments: Moment[] = [
  { when: 'files are laid out', isReached: isLaidOut },
  { when: 'WAL is replayed', isReached: isReplayed },
  { when: 'WAL is replayed, the command alone', isReached: isReplayed, victim: 'command' },
  { when: 'the report is made', isReached: inData('postgres.restored.newest', 'postmaster.pid') },
  { when: 'the data has its name', isReached: inData('postgres') },
];

/** 0: it has none yet. */
const childOf = (pid: number) =>
  Number.parseInt(spawnSync('ps', ['--ppid', String(pid), '-o', 'pid='], { encoding: 'utf8' }).stdout, 10) ||
  0;
/** Processes of PostgreSQL that work in a folder. */
const serversIn = (data: string) =>
  execFileSync('ps', ['-A', '-o', 'pid=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(data) && line.includes('postgres') && line.includes('-D'))
    .map((line) => Number.parseInt(line, 10));

/** Starts a restore and kills it at the moment. */
async function killAt({ when, isReached, victim }: Moment, args: string[], data: string, masterKey: string) {
  const command = spawn(process.execPath, [bin, ...args], {
    env: { ...bare, ROWHOUSE_MASTER_KEY: masterKey },
    stdio: 'ignore',
  });
  const exited = once(command, 'exit');
  let program = 0;
  for (const deadline = Date.now() + 60_000; !isReached(data); ) {
    expect([when, command.exitCode]).toEqual([when, null]);
    if (Date.now() > deadline) throw new Error(`Not reached: ${when}`);
    program ||= childOf(command.pid ?? 0);
    // No longer pause: some of these moments are short.
    await nextTurn();
  }
  process.kill(victim ? (command.pid ?? 0) : program, 'SIGKILL');
  await exited;
  // Without a reader, the program ends when it reports its progress.
  for (const deadline = Date.now() + 60_000; isAlive(program) && Date.now() < deadline; ) await sleep(50);
  expect([when, isAlive(program)]).toEqual([when, false]);
}

function isAlive(pid: number): boolean {
  try {
    // One that has ended and was not collected yet does not work any more.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

it('kill -9 of a restore leaves nothing that a service would start on, or all of it', {
  timeout: 900_000,
}, async () => {
  const [first, second, repository] = [newFolder(), newFolder(), newFolder()];
  onTestFinished(() => {
    for (const pid of serversIn(second)) process.kill(pid, 'SIGQUIT');
  });
  const service = await start(first, repository);
  const call = async (url: string, target: string, body?: object) => {
    const response = await fetch(url + target, {
      method: body ? 'POST' : 'GET',
      headers: { 'x-api-key': service.key, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    expect([target, response.ok]).toEqual([target, true]);
    // biome-ignore lint/suspicious/noExplicitAny: bodies of several shapes
    return (await response.json()) as any;
  };
  const ask = async (url: string, query: string) =>
    (await call(url, '/projects/shop/query', { query })).rows as Record<string, unknown>[];
  await call(service.url, '/projects', { name: 'Shop', slug: 'shop' });
  while ((await call(service.url, '/backups')).backups.length === 0) await sleep(200);
  await ask(service.url, `create table t as select n, md5(n::text) from generate_series(1, ${rows}) as n`);
  await sleep(10);
  const [{ at } = {}] = await ask(service.url, 'select clock_timestamp() as at');
  await sleep(10);
  await ask(service.url, 'delete from t where n % 2 = 0');
  while ((await call(service.url, '/backups')).lag_seconds > 0) await sleep(200);
  const masterKey = readFileSync(path.join(first, 'master.key'), 'utf8').trim();
  await service.stop();
  rmSync(first, { recursive: true, force: true });

  const args = ['restore', '--from', `file:${repository}`, '--to', String(at), '--data', second];
  const left = () => readdirSync(second).filter((name) => name.startsWith('postgres.restored'));
  for (const moment of moments) {
    const { when } = moment;
    await killAt(moment, args, second, masterKey);
    if (existsSync(path.join(second, 'postgres'))) break;
    expect([when, left().length > 0]).toEqual([when, true]);
    // A supervisor may start the service at any time. It makes no key either: that would be the wrong one.
    const started = rowhouse(['start', '--data', second, '--port', String(await freePort())]);
    expect([when, started.status, started.stdout + started.stderr]).toEqual([
      when,
      1,
      expect.stringMatching(/was interrupted[\s\S]*Run "rowhouse restore" again/),
    ]);
    expect(existsSync(path.join(second, 'master.key')), when).toBe(false);
  }

  const again = rowhouse(args, { ROWHOUSE_MASTER_KEY: masterKey });
  expect([again.status, again.stderr]).toEqual([1, expect.stringContaining('already contains data')]);
  expect(serversIn(second)).toEqual([]);
  // With the key that the restore has written.
  const restored = await start(second, newFolder());
  expect(await ask(restored.url, 'select count(*) from t')).toEqual([{ count: rows }]);
  await ask(restored.url, 'insert into t values (0)');
  await restored.stop();

  // A folder in which a restore was killed takes the next one, without --to as well.
  const third = newFolder();
  onTestFinished(() => {
    for (const pid of serversIn(third)) process.kill(pid, 'SIGQUIT');
  });
  const report = moments.find(({ when }) => when === 'the report is made') as Moment;
  await killAt(report, [...args.slice(0, -1), third], third, masterKey);
  const whole = rowhouse(['restore', '--from', `file:${repository}`, '--data', third], {
    ROWHOUSE_MASTER_KEY: masterKey,
  });
  expect([whole.status, whole.stdout]).toEqual([0, expect.stringContaining('rowhouse start')]);
  expect(readdirSync(third).filter((name) => name.startsWith('postgres'))).toEqual(['postgres']);
  expect(serversIn(third)).toEqual([]);
  const everything = await start(third, newFolder());
  expect(await ask(everything.url, 'select count(*) from t')).toEqual([{ count: rows / 2 }]);
});
