// At the size that is promised: many projects on few connections, and a large result to a slow reader.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { expect, it } from 'vitest';
import { makeKey } from '../../src/keys/form.ts';
import { api, useTestService } from '../support/helpers.ts';
import { launch, usedDataFolder } from '../support/process.ts';

const rowhouse = useTestService({ spares: 20, connections: { budget: 60, share: 10 } });

it('300 projects take turns on 60 connections, and all get answers', async () => {
  const projects: { slug: string; id: string; key: string }[] = [];
  for (let n = 0; n < 300; n++) projects.push(await rowhouse.project(`P${n}`));
  const { sessions } = rowhouse.service.deps.query;
  let mostOpen = 0;
  for (let turn = 0; turn < 3; turn++) {
    const answers = await Promise.all(
      projects.map(async ({ slug, key }) => {
        const body = { query: 'select current_database()::text as name', timeout_ms: 120_000 };
        const answer = await rowhouse.call('POST', `/projects/${slug}/query`, { key, body });
        mostOpen = Math.max(mostOpen, sessions.counts().open);
        return answer;
      }),
    );
    answers.forEach(({ status, body }, index) => {
      expect([status, body.rows?.[0]?.name]).toEqual([200, `p_${projects[index]?.id}`]);
    });
  }
  expect(mostOpen).toBeGreaterThan(30);
  expect(mostOpen).toBeLessThanOrEqual(60);
  expect(sessions.counts().waiting).toBe(0);
});

it('a million rows to one slow reader cost less than 64 MB', async () => {
  const accountKey = makeKey('rh_acct_');
  const service = await launch({ ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: accountKey });
  const rss = () =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.child.pid}/status`, 'utf8'))?.[1]) / 1024;
  const made = await service.call('POST', '/projects', { key: accountKey, body: { name: 'Large' } });
  const { project, api_key: key } = made.body;
  const read = async (rows: number, isSlow: boolean) => {
    const query = `select generate_series(1, ${rows}) as id, 'a row of some length, as rows are' as text, now() as at`;
    const asking = request(`${service.url}${api}/projects/${project.slug}/query`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
    });
    asking.end(JSON.stringify({ query, timeout_ms: 110_000 }));
    const [response] = (await once(asking, 'response')) as [import('node:http').IncomingMessage];
    let size = 0;
    let pieces = 0;
    let most = 0;
    let end = '';
    for await (const piece of response) {
      size += piece.length;
      end = (end + piece.toString('latin1')).slice(-300);
      if (pieces++ % 20 === 0) most = Math.max(most, rss());
      if (isSlow && pieces % 40 === 0) await new Promise((resolve) => setTimeout(resolve, 25));
    }
    return { size, most, end };
  };
  // What the first large result of a process costs once is not counted.
  await read(200_000, false);
  const before = rss();
  const { size, most, end } = await read(1_000_000, true);
  expect(end).toContain('"id":1000000,');
  expect(end).toContain('"row_count":1000000');
  expect(size).toBeGreaterThan(80_000_000);
  expect(most - before).toBeLessThan(64);
  expect(await service.stop()).toBe(0);
});
