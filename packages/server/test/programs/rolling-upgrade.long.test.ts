// Two processes of the earlier version are replaced one by one, while requests run through both.
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import {
  type Answer,
  address,
  asAdmin,
  newControlName,
  removeTestService,
  soon,
  until,
} from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, type Running } from '../support/process.ts';
import { startLedger } from '../support/write-ledger.ts';
import { findEarlierVersion } from './earlier-version.ts';

const earlier = findEarlierVersion('a rolling upgrade is not tested');

/** An answer of 503, as the ledger understands it. */
const refused = (code: 'unavailable' | 'outcome_unknown'): Answer => ({
  status: 503,
  body: { error: { code } },
  headers: {},
});

/** A place behind the load balancer: the process there is stopped, and another one takes its place. */
function newPlace(first: Running) {
  let running = first;
  const call: Running['call'] = (method, target, options) =>
    running.call(method, target, options).catch((error) => {
      // A load balancer sends it to the other process: nothing was sent.
      if (error.cause?.code === 'ECONNREFUSED') return refused('unavailable');
      return refused('outcome_unknown');
    });
  return {
    call,
    stop: () => running.stop(),
    replace: async (start: () => Promise<Running>) => {
      expect(await running.stop(), running.output()).toBe(0);
      running = await start();
      expect(running.output()).toMatch(/^ready$/m);
    },
  };
}

it.skipIf(!earlier)(
  'processes of the earlier version are replaced one by one, and callers notice nothing',
  async () => {
    if (!earlier) return;
    const { user, password, host, port } = address();
    const controlDatabase = newControlName();
    const env = {
      ROWHOUSE_DATABASE_URL: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/postgres`,
      ROWHOUSE_CONTROL_DATABASE: controlDatabase,
      ROWHOUSE_MASTER_KEY: randomBytes(32).toString('hex'),
      ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
      ROWHOUSE_PASSWORD_ITERATIONS: '100000',
    };
    const start = (program?: string) =>
      launch({ ...env, ROWHOUSE_DATA: newDataFolder() }, program ? { program } : {});
    const old = await start(earlier.program);
    expect(old.output(), `version ${earlier.name}`).toMatch(/^ready$/m);
    const [one, two] = [newPlace(old), newPlace(await start(earlier.program))];
    type Place = typeof one;

    const createProject = async (on: Place, name: string) => {
      const { status, body } = await on.call('POST', '/projects', { body: { name } });
      expect(status, JSON.stringify(body)).toBe(201);
      return { slug: body.project.slug as string, key: body.api_key as string };
    };
    const project = await createProject(one, 'Ledger');
    const at = `/projects/${project.slug}`;
    const ask = async (on: Place, key: string, path = at) =>
      (await on.call('POST', `${path}/query`, { key, body: { query: 'select 1' } })).status;
    const createKey = async (on: Place) => {
      const body = { name: 'reader', scopes: ['query'] };
      const answer = await on.call('POST', `${at}/keys`, { key: project.key, body });
      expect(answer.status, JSON.stringify(answer.body)).toBe(201);
      return { id: answer.body.key.id as string, key: answer.body.api_key as string };
    };
    const ofTheOld = await createKey(one);
    const credentials = { email: 'ann@example.com', password: 'correct horse battery' };
    const signUp = await two.call('POST', `${at}/auth/signup`, { key: project.key, body: credentials });
    expect(signUp.status, JSON.stringify(signUp.body)).toBe(201);
    const ledger = await startLedger([one, two], project);
    const grows = async () => {
      const before = ledger.acknowledged.length;
      await until('writes run', async () => ledger.acknowledged.length > before + 50);
    };
    await grows();

    await one.replace(() => start());
    await grows();
    // The first place has the new version, the second one the earlier one.
    expect([await ask(one, ofTheOld.key), await ask(two, ofTheOld.key)]).toEqual([200, 200]);
    const ofTheNew = await createKey(one);
    expect([await ask(one, ofTheNew.key), await ask(two, ofTheNew.key)]).toEqual([200, 200]);
    for (const [on, other] of [
      [one, two],
      [two, one],
    ] as const) {
      const made = await createProject(on, 'Another');
      expect(await ask(other, made.key, `/projects/${made.slug}`)).toBe(200);
    }
    // Passwords are hashed with the lowest priority, and the writers keep the machine busy.
    await until(
      'the user of the earlier version signs in',
      async () =>
        (await one.call('POST', `${at}/auth/signin`, { key: project.key, body: credentials })).status === 200,
      60_000,
    );
    for (const [by, on, { id, key }] of [
      [one, two, ofTheOld],
      [two, one, ofTheNew],
    ] as const) {
      expect((await by.call('DELETE', `${at}/keys/${id}`, { key: project.key })).status).toBe(200);
      await until('the other version refuses it', async () => (await ask(on, key)) === 401, soon);
    }
    await grows();

    await two.replace(() => start());
    await grows();
    expect(await ask(two, project.key)).toBe(200);
    await ledger.settle();

    const [row] = await asAdmin(
      (control) =>
        control.query<{ value: string }>(sql`select value from settings where name = 'installation'`),
      { ...address(), database: controlDatabase },
    );
    for (const place of [one, two]) await place.stop();
    await removeTestService(controlDatabase, row?.value ?? '');
  },
);
