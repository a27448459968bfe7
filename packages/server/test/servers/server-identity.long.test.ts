// A further server is known by PostgreSQL's own identifier: what else answers at its address is not used.
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { startLab } from '../support/backup-lab.ts';
import { api, openTestService, until } from '../support/helpers.ts';

it('another PostgreSQL at the address of a server counts as away, and an unknown identifier is noted', {
  timeout: 5 * 60_000,
}, async () => {
  const [first, second] = [await startLab(), await startLab()];
  const options = { at: first.engine.address, masterKey: first.masterKey, spares: 0 };
  const earlier = await openTestService(options);
  const { user, password, host, port, database } = second.engine.address;
  const address = `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;
  const added = await earlier.call('POST', `${api}/servers`, { body: { name: 'second', address } });
  expect(added.status, JSON.stringify(added.body)).toBe(201);
  const { control } = earlier.service.deps;
  const [known] = await control.query<{ id: string }>(
    sql`select system_identifier as id from servers where name = 'second'`,
  );
  await control.query(sql`update servers set system_identifier = '1' where name = 'second'`);
  const { accountKey: key, controlDatabase } = earlier;
  await earlier.stop();

  const rowhouse = await openTestService({ ...options, controlDatabase });
  onTestFinished(() => rowhouse.stop());
  const stateOf = async () => {
    const { body } = await rowhouse.call('GET', `${api}/servers`, { key });
    return body.servers.find(({ name }: { name: string }) => name === 'second').state;
  };
  await until('it is reported', async () =>
    rowhouse.log.some((line) => line.includes('another PostgreSQL server answers')),
  );
  expect(await stateOf()).toBe('unavailable');

  // As an earlier version has left it.
  const { control: present } = rowhouse.service.deps;
  await present.query(sql`update servers set system_identifier = null where name = 'second'`);
  await until('it is open', async () => (await stateOf()) === 'ready', 60_000);
  const noted = await present.query(sql`select system_identifier as id from servers where name = 'second'`);
  expect(noted).toEqual([known]);
});
