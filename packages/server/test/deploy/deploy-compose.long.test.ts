// deploy/compose.yaml in real containers, by the commands of deploy/README.md: what it promises holds when a container is killed.
import { appendFileSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { api, until } from '../support/helpers.ts';
import { buildTimeoutMs, root } from '../support/toolchains.ts';
import { type Compose, copySources, findPrograms, makeBaseImages, openCompose } from './compose.ts';
import { containersSkipReason, makePlace, removePlace } from './containers.ts';

const without = 'deploy/compose.yaml is not run';
const needed = ['unshare', 'nsenter', 'ip', 'iptables', 'curl', 'jq', 'psql', 'openssl'];
const reason = containersSkipReason(without, needed);
const programs = reason ? null : await findPrograms(without);
const readme = readFileSync(path.join(root, 'deploy/README.md'), 'utf8');
const minutes = 60_000;

/** The commands in the blocks of a section. */
function commandsOf(section: string): string[][] {
  const [, text = ''] = readme.split(`\n## ${section}\n`);
  const blocks = text.split('\n## ')[0]?.matchAll(/```\n(.*?)```/gs) ?? [];
  return [...blocks].map(([, block = '']) => [...block.matchAll(/^\$ (.*)$/gm)].map(([, line = '']) => line));
}

describe.skipIf(!programs)('the cluster of deploy/compose.yaml', { timeout: 20 * minutes }, () => {
  const place = makePlace();
  let compose: Compose;
  let accountKey = '';
  let operatorKey = '';

  const runBlock = (commands: string[] | undefined, cwd?: string) => {
    expect(commands?.length).toBeGreaterThan(0);
    return compose.shell((commands ?? []).join('\n').replaceAll('rh_acct_…', accountKey), cwd);
  };
  const members = async (from: string) =>
    JSON.parse(await compose.shell(`docker compose exec ${from} patronictl list --format json`)) as {
      Member: string;
      Role: string;
      State: string;
    }[];
  const isComplete = async () => {
    const found = await members('pg1').catch(() => []);
    const states = found.map(({ Role, State }) => `${Role} ${State}`).sort();
    return states.join() === 'Leader running,Replica streaming,Sync Standby streaming';
  };
  const leader = async (from: string) => (await members(from)).find(({ Role }) => Role === 'Leader')?.Member;
  const isReady = (port: number) =>
    compose.shell(`curl --fail --silent http://127.0.0.1:${port}/readyz`).then(
      () => true,
      () => false,
    );
  /** The cluster is whole, and both API processes and HAProxy answer. */
  const untilUp = async () => {
    await until('there are a primary and two standbys', isComplete, 5 * minutes);
    for (const port of [8765, 8766, 8080]) await until(`${port} is ready`, () => isReady(port), 5 * minutes);
  };
  /** Runs SQL through HAProxy. Status 0: there was no whole answer. */
  const query = async (text: string): Promise<{ status: number; body: { rows?: unknown[] } }> => {
    const target = `http://127.0.0.1:8080${api}/projects/tea/query`;
    const headers = `--header 'X-API-Key: ${accountKey}' --header 'Content-Type: application/json'`;
    const answer = await compose.shell(
      `curl --silent --max-time 60 --write-out '\\n%{http_code}' ${headers} --data '${JSON.stringify({ query: text })}' ${target} || printf '\\n0'`,
    );
    const [body = '', status = ''] = answer.split(/\n(?=\d+$)/);
    return { status: Number(status), body: status === '200' ? JSON.parse(body) : {} };
  };
  /** Three clients, each with one request at a time, from before `action` until after it. Returns how many of each failed. */
  const failuresDuring = async (
    request: () => Promise<boolean>,
    action: () => Promise<unknown>,
  ): Promise<number[]> => {
    let isActing = true;
    const clients = [0, 0, 0].map(async (failures) => {
      while (isActing) if (!(await request())) failures += 1;
      return failures;
    });
    await action().finally(() => {
      isActing = false;
      return Promise.all(clients);
    });
    return Promise.all(clients);
  };
  const read = async () => (await query('select 1')).status === 200;

  beforeAll(async () => {
    if (!programs) return;
    const sources = copySources(place);
    await makeBaseImages(place, programs);
    // Builds need the network of the machine. Those of the README find all of it done.
    compose = await openCompose(place, programs, { build: true });
    const settings = readFileSync(path.join(sources, 'deploy/.env.example'), 'utf8').replace(/=$/gm, '=x');
    const names = [...settings.matchAll(/^\w+=x$/gm)].join(' ');
    await compose.shell(`env ${names} docker compose build pg1 api1`);
    await compose.stop();
    compose = await openCompose(place, programs);
  }, 3 * buildTimeoutMs);
  afterAll(async () => {
    try {
      await compose?.stop();
    } finally {
      removePlace(place);
    }
  }, 5 * minutes);

  it('starts, and serves a project through HAProxy, also to psql', async () => {
    const [start, withProxy] = commandsOf('Start');
    const keys = await runBlock(start, path.join(place, 'rowhouse'));
    [accountKey = ''] = /rh_acct_\w+/.exec(keys) ?? [];
    [operatorKey = ''] = /rh_oper_\w+/.exec(keys) ?? [];
    expect([accountKey, operatorKey]).not.toContain('');
    await runBlock(withProxy);
    await untilUp();
    const [check] = commandsOf('Check');
    const checked = await runBlock(check);
    for (const text of ['Leader', 'Sync Standby', '200 OK', 'ready']) expect(checked).toContain(text);
    const servers = await compose.shell(
      `docker compose exec -e ROWHOUSE_API_KEY=${operatorKey} api2 rowhouse servers list`,
    );
    expect(servers).toMatch(/external +ready +pg1:5432, pg2:5432, pg3:5432/);
    const [use] = commandsOf('Use it');
    expect(await runBlock(use)).toMatch(/grams *\n-+\n +42\n/);
    for (const name of ['etcd1', 'etcd2', 'etcd3', 'pg1', 'pg2', 'pg3', 'api1', 'api2'])
      expect([name, await compose.isHealthy(`rowhouse-${name}-1`)]).toEqual([name, true]);
  });

  it('goes on when the container of the primary is killed, and loses no acknowledged write', async () => {
    expect((await query('create table written (n integer)')).status).toBe(200);
    const old = (await leader('pg1')) ?? '';
    const other = old === 'pg2' ? 'pg3' : 'pg2';
    const named = (commands: string[] | undefined) =>
      commands?.map((line) => line.replaceAll('pg2', other).replaceAll('pg1', old));
    const [kill, start, copy] = commandsOf('Kill a node');
    let last = 0;
    const acknowledged: number[] = [];
    const write = async () => {
      last += 1;
      const n = last;
      const { status } = await query(`insert into written values (${n})`);
      if (status === 200) acknowledged.push(n);
      return status === 200;
    };
    const isReplaced = async () => ![undefined, old].includes(await leader(other));
    const failures = await failuresDuring(write, async () => {
      await until('there are writes', async () => acknowledged.length > 10, 5 * minutes);
      await runBlock(named(kill));
      await until('another node acknowledges', async () => (await isReplaced()) && write(), 5 * minutes);
    });
    console.log(
      `While the primary was replaced, ${acknowledged.length} of ${last} writes were acknowledged.`,
    );
    // There were writes at the moment of the kill.
    expect(Math.max(...failures)).toBeGreaterThan(0);
    await runBlock(named(start));
    await until('the killed node is a standby', isComplete, 5 * minutes);
    const { body } = await query('select json_agg(n) as numbers from written');
    const [found] = body.rows as { numbers: number[] }[];
    expect(acknowledged.filter((n) => !found?.numbers.includes(n))).toEqual([]);

    // patronictl succeeds also when the node refuses.
    expect(await runBlock(named(copy))).toContain(`Reinitialize is completed on: ${old}`);
    await until('the copied node is a standby', isComplete, 5 * minutes);
  });

  it('goes on when an API process is killed: at most the request that it was answering fails', async () => {
    const failures = await failuresDuring(read, async () => {
      await compose.shell('docker compose kill api1');
      for (let i = 0; i < 20; i++) await read();
      await compose.shell('docker compose start api1');
      await until('it is back', () => isReady(8765), 5 * minutes);
    });
    // Each client has one request at a time.
    expect(Math.max(...failures), failures.join()).toBeLessThanOrEqual(1);
  });

  it('goes on after a switchover', async () => {
    const before = await leader('pg1');
    await runBlock(commandsOf('Kill a node')[3]);
    await until('the cluster is whole', isComplete, 5 * minutes);
    expect(await leader('pg1')).not.toBe(before);
    await until('it answers', read, 1 * minutes);
  });

  it('refuses no request during an upgrade', async () => {
    // What is upgraded: another image.
    appendFileSync(path.join(place, 'rowhouse/Dockerfile'), '\nLABEL version=next\n');
    const containers = async () => (await compose.shell('docker compose ps --quiet api1 api2')).split('\n');
    const old = await containers();
    expect(old).toHaveLength(2);
    const [upgrade = []] = commandsOf('Upgrade Rowhouse');
    expect(upgrade[0]).toBe('git pull');
    const failures = await failuresDuring(read, async () => {
      await runBlock(upgrade.slice(1));
      for (const port of [8765, 8766]) await until(`${port} is ready`, () => isReady(port), 5 * minutes);
    });
    expect((await containers()).filter((id) => !old.includes(id))).toHaveLength(2);
    expect(failures).toEqual([0, 0, 0]);
    expect((await query('select grams from teas')).body.rows).toEqual([{ grams: 42 }]);
  });

  it('keeps its data when everything is stopped and started again', async () => {
    await runBlock(commandsOf('Stop')[0]);
    await runBlock(commandsOf('Start')[1]);
    await untilUp();
    expect((await query('select grams from teas')).body.rows).toEqual([{ grams: 42 }]);
    expect((await query('insert into written values (0)')).status).toBe(200);
  });
});
