// What a client of the PostgreSQL proxy hears when an operation on branches needs the project's database to itself.
import { expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { whyEnded } from '../../src/postgres-proxy/start.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { asAdmin, useTestService } from '../support/helpers.ts';
import { connectPg, loginOf, openProxy } from '../support/proxy-clients.ts';

const rowhouse = useTestService();

it('a branch, a reset and a promotion tell direct clients why their connections end', async () => {
  const parent = await rowhouse.project('Through the proxy');
  const { control } = rowhouse.service.deps;
  const proxy = await openProxy(rowhouse, { whyEnded: (id) => whyEnded(control, id) });
  /** The error of a client that is connected meanwhile. */
  const endDuring = async (slug: string, act: () => Promise<unknown>) => {
    const client = await connectPg(proxy.port, await loginOf(rowhouse, slug));
    const ended = new Promise<unknown>((resolve) => client.on('error', resolve));
    await client.query('select 1');
    await act();
    return ended;
  };
  const told = {
    code: '57P01',
    message: expect.stringContaining('being branched, reset, promoted or restored'),
    hint: 'Connect again.',
  };
  const ask = async (target: string, expected: number, body?: object) => {
    const answer = await rowhouse.call('POST', `/projects/${target}`, { ...(body && { body }) });
    expect([target, answer.status, answer.body.error]).toEqual([target, expected, undefined]);
  };
  const branch = 'branch-through-the-proxy';
  const creating = () => ask(`${parent.slug}/branches`, 201, { name: 'Branch', slug: branch });
  expect(await endDuring(parent.slug, creating)).toMatchObject(told);
  expect(await endDuring(branch, () => ask(`${branch}/reset`, 200))).toMatchObject(told);
  expect(await endDuring(parent.slug, () => ask(`${branch}/promote`, 200))).toMatchObject(told);

  // Nothing holds the project any more: PostgreSQL's own message is all there is to say.
  const terminate = () =>
    asAdmin((admin) =>
      admin.query(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${databaseOf(parent.id)}`,
      ),
    );
  expect(await endDuring(parent.slug, terminate)).toMatchObject({
    code: '57P01',
    message: expect.stringContaining('administrator command'),
  });
});
