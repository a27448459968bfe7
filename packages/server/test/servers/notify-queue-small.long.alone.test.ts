// A queue of notifications that one flood fills nearly: here a busy listener of another project has to be ended, or NOTIFY would
// fail in all projects. Its project is not blamed for it.
import { expect, it } from 'vitest';
import { until } from '../support/helpers.ts';
import { useOwnPostgres } from '../support/own-postgres.ts';
import { flood, useNotifyQueue } from './notify-queue.ts';

const pages = 64 * 1_024;
const own = useOwnPostgres({
  spares: 2,
  connections: { budget: 20, share: 6 },
  more: { max_notify_queue_pages: String(pages) },
});
const { run, connect, usage, untilShort } = useNotifyQueue(() => own.rowhouse, 0.02);

it('a busy listener is ended before the queue is full, and its project is not refused for that', async () => {
  const [calm, culprit, busy] = [
    await own.rowhouse.project('Calm'),
    await own.rowhouse.project('Culprit'),
    await own.rowhouse.project('Busy'),
  ];
  for (let time = 0; time < 3; time++) {
    const holder = await connect(busy);
    await holder.query('listen c');
    await holder.query('begin');
    await holder.query('select 1');
    const failures: unknown[] = [];
    let isOver = false;
    const notifying = (async () => {
      while (!isOver) {
        const { status, body } = await run(calm, "select pg_notify('calm', 'x')");
        if (status !== 200) failures.push(body.error);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    const { status, body } = await run(culprit, flood(400));
    expect([200, 503], JSON.stringify(body)).toContain(status);
    await until('the holder is ended', async () => holder.isOver, 20_000);
    await untilShort();
    isOver = true;
    await notifying;
    expect(failures).toEqual([]);
  }
  for (const project of [busy, culprit])
    expect((await (await connect(project)).query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  expect(own.rowhouse.log.join('')).not.toContain('direct connections are refused for a while');
});

it('a flood that leaves enough room ends no busy listener', async () => {
  const [culprit, busy] = [await own.rowhouse.project('Culprit'), await own.rowhouse.project('Busy')];
  const holder = await connect(busy);
  await holder.query('listen c');
  await holder.query('begin');
  await holder.query('select 1');
  expect((await run(culprit, flood(90))).status).toBe(200);
  expect(await usage()).toBeGreaterThan(0.125);
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  expect((await holder.query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  await holder.query('commit');
  await untilShort();
});
