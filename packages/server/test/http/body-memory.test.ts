// Bodies count towards the memory budget of their project until nothing holds them any more: also those of callers who have hung up
// while their requests wait for a session.
import { type AddressInfo, connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 10, share: 1 } });
let mine: { slug: string; id: string; key: string };
let neighbour: typeof mine;
let base: string;

beforeAll(async () => {
  mine = await rowhouse.project('Large bodies');
  neighbour = await rowhouse.project('Neighbour');
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
  base = `http://127.0.0.1:${(rowhouse.app.server.address() as AddressInfo).port}/api/dbaas/v2`;
});

const post = (project: typeof mine, body: object, signal: AbortSignal | null = null) =>
  fetch(`${base}/projects/${project.slug}/query`, {
    method: 'POST',
    headers: { 'x-api-key': project.key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
/** A sixth of a project's budget: a body counts three times. */
const large = { query: 'select length($1::text) as bytes', params: ['x'.repeat(10 * 1024 * 1024)] };

it('a body counts as long as its request waits, although its caller has hung up', async () => {
  const { sessions } = rowhouse.service.deps.query;
  const sleeping = post(mine, { query: 'select pg_sleep(10)' });
  await until('it has the session', async () => sessions.counts().idle < sessions.counts().open);
  const callers = new AbortController();
  // All at once, because a request waits for a session for at most five seconds.
  for (let n = 1; n <= 6; n++) post(mine, large, callers.signal).catch(() => {});
  await until('all wait', async () => sessions.counts().waiting === 6);
  callers.abort();
  const refused = await post(mine, large);
  expect([refused.status, await refused.json()]).toMatchObject([
    429,
    { error: { code: 'overloaded', message: 'The memory for large request bodies is used up.' } },
  ]);
  const beside = await post(neighbour, { query: 'select 1 as one' });
  expect(await beside.json()).toMatchObject({ rows: [{ one: 1 }] });
  expect((await sleeping).status).toBe(200);
  await until('their memory is free again', async () => {
    const answer = await post(mine, large);
    return answer.status === 200;
  });
});

it('a caller who hangs up before it is known who calls leaves no request behind', async () => {
  const { keyRing } = rowhouse.service.deps;
  const { verifyAny, recall } = keyRing;
  keyRing.recall = () => null;
  keyRing.verifyAny = async (key) => {
    await setTimeout(300);
    return verifyAny(key);
  };
  const socket = connect(Number(new URL(base).port), '127.0.0.1');
  socket.write(
    `POST ${new URL(base).pathname}/projects/${mine.slug}/query HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${mine.key}\r\n` +
      'X-Request-Id: hung-up\r\nX-Unread_Name: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{',
  );
  await setTimeout(100);
  socket.destroy();
  const isLogged = () =>
    rowhouse.log.some((line) => line.includes('"hung-up"') && line.includes('"status":408'));
  await until('its end is logged', async () => isLogged(), 5_000).finally(() => {
    keyRing.verifyAny = verifyAny;
    keyRing.recall = recall;
  });
});
