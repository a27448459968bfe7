// The service on a cluster of three PostgreSQL servers under Patroni: the steps in docs/fleet.md, and two processes while the
// servers are killed and cut off.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { parseDatabaseUrl } from '../../src/servers/external.ts';
import { asPattern, cutSection, fleetSteps, runConsole } from '../support/console-sessions.ts';
import { openSecondProcess, openTestService, until } from '../support/helpers.ts';
import { freePort, newDataFolder } from '../support/process.ts';
import { environment, root } from '../support/toolchains.ts';
import { startLedger } from '../support/write-ledger.ts';
import { openPatroni, untilRejoined, untilReplaced } from './patroni.ts';

const minutes = 60_000;
const cluster = await openPatroni('failover by Patroni is not tested', { networks: true });
if (cluster?.noNetworks) console.warn(`SKIPPED: ${cluster.noNetworks}, so a network cut is not tested.`);
afterAll(() => cluster?.stop());
/** Installations that share a server need the same one. */
const masterKey = randomBytes(32);
const isInstalled = (program: string) => spawnSync(program, ['--version']).status === 0;
const [hasJq, hasPsql] = [isInstalled('jq'), isInstalled('psql')];
if (!hasJq) console.warn('SKIPPED: jq is not installed, so the steps in docs/fleet.md do not run.');
if (!hasPsql) console.warn('SKIPPED: psql is not installed, so a command in docs/fleet.md is not checked.');

test.skipIf(!cluster || !hasJq)(
  'the steps from one machine to a fleet in docs/fleet.md give the output that they show',
  { timeout: 5 * minutes },
  async () => {
    if (!cluster) return;
    const second = await startEmbedded({
      dataFolder: newDataFolder(),
      masterKey: randomBytes(32),
      connections: 40,
      reserveBytes: 0,
      say: () => {},
      onEvent: () => {},
    });
    onTestFinished(second.stop);
    const { user, password, host, port } = second.address;
    const secondUrl = `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/postgres`;
    const inPage = (hosts: string) => `postgres://rowhouse:secret@${hosts}/postgres`;
    // Longer ones first: the addresses contain ports.
    const real = new Map<string, string>([
      ['npx rowhouse', `${process.execPath} ${path.join(root, 'packages/cli/bin/rowhouse.mjs')}`],
      [inPage('db2.example.com:5432'), secondUrl],
      [inPage([1, 2, 3].map((n) => `pg${n}.example.com:5432`).join()), cluster.url],
      ['db.example.com', 'localhost'],
    ]);
    for (const each of ['8765', '8766', '5432', '5433']) real.set(each, String(await freePort()));
    const shownOnes = new RegExp(
      [...real.keys()].map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|'),
      'g',
    );
    const edit = (text: string) => text.replace(shownOnes, (found) => real.get(found) ?? found);

    const { section } = cutSection(readFileSync(path.join(root, 'docs/fleet.md'), 'utf8'), fleetSteps);
    const { ran, problems } = await runConsole(section, edit, {
      cwd: newDataFolder(),
      env: {
        ...environment,
        ROWHOUSE_MASTER_KEY: masterKey.toString('hex'),
        ROWHOUSE_SPARES: '0',
        ROWHOUSE_BACKUP_URL: 'off',
      },
    });
    expect(ran.length).toBeGreaterThan(20);
    for (const { command, shown, output } of ran) {
      if (hasPsql || !command.startsWith('psql '))
        expect(output, `${command}\n${problems}`).toMatch(asPattern(edit(shown)));
    }
  },
);

/** Without etcd, a primary goes on as long as it reaches the others. */
const etcdAwayMs = 25_000;

test.skipIf(!cluster)(
  'no acknowledged write is lost when servers are killed, switched or cut off, and they rejoin',
  { timeout: 15 * minutes },
  async () => {
    if (!cluster) return;
    const first = await openTestService({ at: parseDatabaseUrl(cluster.url), masterKey, spares: 0 });
    onTestFinished(first.stop);
    const second = await openSecondProcess(first, { at: parseDatabaseUrl(cluster.url) });
    onTestFinished(second.stop);
    const ledger = await startLedger([first, second], await first.project('Ledger'));
    onTestFinished(ledger.stop);

    const gaps: Record<string, number> = {};
    /** Writes run before it and after it. */
    const during = async (what: string, event: () => Promise<void>) => {
      const grows = async () => {
        const before = ledger.acknowledged.length;
        await until(`writes run: ${what}`, async () => ledger.acknowledged.length > before + 50, 2 * minutes);
      };
      await grows();
      // Without a synchronous standby, none can be promoted. After etcd was away, Patroni takes some rounds to choose one again.
      for (let round = 0; round < 6; round++) {
        await sleep(1_000);
        await cluster.isComplete();
      }
      ledger.longestGapMs();
      await event();
      await grows();
      gaps[what] = Math.round(ledger.longestGapMs());
    };
    const rejoins = (name: string) => untilRejoined(cluster, name);
    const next = async (old: string) => void (await untilReplaced(cluster, old));

    const one = await cluster.primary();
    await during('PostgreSQL killed', async () => {
      cluster.kill(one, 'postgres');
      await next(one);
    });
    await rejoins(one);

    const two = await cluster.primary();
    await during('switchover', async () => {
      await cluster.switchover(two);
      await next(two);
    });
    await rejoins(two);

    await during('etcd hangs', async () => {
      cluster.signalEtcd('SIGSTOP');
      await sleep(etcdAwayMs);
      cluster.signalEtcd('SIGCONT');
    });

    const three = await cluster.primary();
    await during('node killed', async () => {
      cluster.kill(three, 'node');
      await next(three);
    });
    cluster.start(three);
    await rejoins(three);

    for (const from of cluster.noNetworks ? [] : (['everything', 'others'] as const)) {
      const old = await cluster.primary();
      const what = `primary cut off from ${from}`;
      await during(what, async () => {
        cluster.cut(old, from);
        await next(old);
      });
      // Reachable by the service, and still a primary in its own eyes until then: its writes must not be acknowledged.
      if (from === 'others')
        await until(`${old} is demoted`, async () => !(await cluster.isPrimary(old)), minutes);
      cluster.heal(old, from);
      await rejoins(old);
      expect(gaps[what], what).toBeLessThan(minutes);
    }

    console.log(`longest gap between acknowledged writes, ms: ${JSON.stringify(gaps)}`);
    for (const on of [first, second]) expect((await on.call('GET', '/readyz')).status).toBe(200);
    await ledger.settle();
  },
);
