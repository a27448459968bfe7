// Requests to a project on a server that this process has not reached yet: each is answered, and the process goes on. An error
// that nobody handles would end it, and fails this file.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { insertServer, sealAddress } from '../../src/servers/rows.ts';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();

it('gets 503 for reads, writes and sign-ups, and the neighbour notices nothing', async () => {
  const { control, servers, masterKey } = rowhouse.service.deps;
  const [project, neighbour] = [await rowhouse.project('Away'), await rowhouse.project('Here')];
  const url = 'postgres://rowhouse:secret@127.0.0.1:1/postgres';
  const id = await insertServer(control, {
    name: 'away',
    hosts: ['127.0.0.1:1'],
    address: sealAddress(masterKey, 'away', url),
    labels: [],
    capacityMb: null,
    capacityConnections: null,
    systemIdentifier: '1',
  });
  await servers.refresh();
  const setHome = async (serverId: number | null) => {
    await control.query(sql`
      with changed as (insert into changes (project_id) values (${project.id}))
      update projects set server_id = ${serverId} where id = ${project.id}`);
  };
  await setHome(id);
  const call = (path: string, body: object, { slug, key } = project) =>
    rowhouse.call('POST', `/projects/${slug}${path}`, { key, body });
  await expect
    .poll(async () => (await call('/query', { query: 'select 1' })).status, { timeout: 10_000 })
    .toBe(503);
  const requests: [string, object][] = [
    ['/query', { query: 'create table t (n int)' }],
    ['/query', { query: 'insert into t values (1)' }],
    ['/batch', { statements: [{ query: 'create table t (n int)' }] }],
    ['/tables/t', { n: 1 }],
    ['/auth/signup', { email: 'ann@example.com', password: 'correct horse battery' }],
  ];
  for (const [path, body] of requests) {
    const answer = await call(path, body);
    expect([path, answer.status, answer.body.error?.code]).toEqual([path, 503, 'unavailable']);
  }
  expect((await call('/query', { query: 'create table t (n int)' }, neighbour)).status).toBe(200);
  // An error that nobody handles is reported after the turn of the event loop in which it occurred.
  await sleep(100);
  await setHome(servers.first.id);
  await control.query(sql`delete from servers where id = ${id}`);
});
