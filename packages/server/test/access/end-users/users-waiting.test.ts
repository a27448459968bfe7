// A sign-up waits up to 15 s for the service's own work, and a lock of somebody else refuses it.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { databaseOf } from '../../../src/servers/databases/names.ts';
import { address, asAdmin, useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService();
/** More than a statement on users may take in PostgreSQL. */
const workMs = 6_000;

const openShop = async (name: string) => {
  const project = await rowhouse.project(name);
  let made = 0;
  const signUp = () =>
    rowhouse.call('POST', `/projects/${project.slug}/auth/signup`, {
      key: project.key,
      body: { email: `u${++made}@example.com`, password: 'correct horse battery' },
    });
  expect((await signUp()).status).toBe(201);
  return { ...project, signUp };
};

it.concurrent('a sign-up waits while its project is paused', async () => {
  const shop = await openShop('Paused');
  const open = rowhouse.service.deps.query.sessions.gate.close(shop.id);
  const waiting = shop.signUp();
  await sleep(workMs);
  open();
  const { status, body } = await waiting;
  expect(status, JSON.stringify(body)).toBe(201);
});

it.concurrent('a sign-up is refused after a long pause, and the neighbour notices nothing', async () => {
  const [shop, neighbour] = [await openShop('Long pause'), await openShop('Beside a pause')];
  const open = rowhouse.service.deps.query.sessions.gate.close(shop.id);
  const waiting = shop.signUp();
  expect((await neighbour.signUp()).status).toBe(201);
  const { status, body } = await waiting;
  expect([status, body.error.code], JSON.stringify(body)).toEqual([503, 'unavailable']);
  expect(body.error.message).toContain('paused');
  open();
  expect((await shop.signUp()).status).toBe(201);
});

it.concurrent('a sign-up waits for its turn among the writers of a full project', async () => {
  const shop = await openShop('Full');
  const { writerQueue } = rowhouse.service.deps.query.admission;
  writerQueue.close(shop.id);
  const startedAt = performance.now();
  const closing = setInterval(() => {
    if (performance.now() - startedAt < workMs) writerQueue.close(shop.id);
  }, 200);
  // A turn ends by itself after two seconds.
  for (let turn = 0; turn < 3; turn++) void writerQueue.take(shop.id);
  const { status, body } = await shop.signUp();
  clearInterval(closing);
  expect(status, JSON.stringify(body)).toBe(201);
  expect(performance.now() - startedAt).toBeGreaterThan(5_500);
});

it.concurrent('a sign-up is told about a lock that somebody else holds, and the neighbour notices nothing', async () => {
  const [shop, neighbour] = [await openShop('Locked'), await openShop('Neighbour')];
  await asAdmin(
    (admin) =>
      admin.transaction(async (transaction) => {
        await transaction.query(sql`lock table auth.users in access exclusive mode`);
        const { status, body, headers } = await shop.signUp();
        expect([status, body.error.code, headers['retry-after']]).toEqual([503, 'unavailable', '1']);
        expect(body.error.message).toContain('holds a lock on the users');
        expect((await neighbour.signUp()).status).toBe(201);
      }),
    { ...address(), database: databaseOf(shop.id) },
  );
  expect((await shop.signUp()).status).toBe(201);
});
