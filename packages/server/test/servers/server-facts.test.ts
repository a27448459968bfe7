// What operators see of their installation: disk and connections of the servers, and projects by size.
import { tmpdir } from 'node:os';
import { ProjectsResponse, ServersResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { address, useTestService } from '../support/helpers.ts';

const mb = 1024 * 1024;
const rowhouse = useTestService({ disk: { folder: tmpdir(), reserveBytes: 3 * mb } });
const servers = async (): Promise<ServersResponse['servers']> => {
  const { status, body } = await rowhouse.call('GET', '/api/dbaas/v2/servers');
  expect(status, JSON.stringify(body)).toBe(200);
  expect(Compile(ServersResponse).Check(body)).toBe(true);
  return body.servers;
};

it('a server tells its connections with their limit, and the disk of this machine', async () => {
  const others = Array.from({ length: 6 }, () => openDatabase(address(), { max: 1 }));
  try {
    const [known] = await Promise.all(
      others.map((one) =>
        one.query<{ limit: number }>(sql`select current_setting('max_connections')::int as limit`),
      ),
    );
    const [server] = await servers();
    expect(server?.connections?.limit).toBe(known?.[0]?.limit);
    expect(server?.connections?.used).toBeGreaterThanOrEqual(others.length);
    expect(server?.connections?.used).toBeLessThanOrEqual(known?.[0]?.limit ?? 0);
    expect(server?.disk?.reserve_mb).toBe(3);
    expect(server?.disk?.free_mb).toBeGreaterThan(0);
    expect(server?.disk?.total_mb).toBeGreaterThanOrEqual(server?.disk?.free_mb ?? 0);
  } finally {
    await Promise.all(others.map((one) => one.end()));
  }
});

it('projects are listed by size, the largest first, page by page', async () => {
  const made = [];
  for (const name of ['Small', 'Large', 'Middle']) made.push(await rowhouse.project(name));
  const [small, large, middle] = made;
  for (const [project, rows] of [
    [large, 40_000],
    [middle, 10_000],
  ] as const) {
    const query = `create table t as select repeat('x', 100) from generate_series(1, ${rows})`;
    const path = `/projects/${project?.slug}/query`;
    expect((await rowhouse.call('POST', path, { key: project?.key ?? '', body: { query } })).status).toBe(
      200,
    );
  }
  const list = async (query: string) => {
    const { body } = await rowhouse.call('GET', `/projects?${query}`);
    expect(Compile(ProjectsResponse).Check(body)).toBe(true);
    return body.projects.map(({ slug }: { slug: string }) => slug);
  };
  const bySize = [large?.slug, middle?.slug, small?.slug];
  await expect.poll(() => list('order=size'), { timeout: 30_000 }).toEqual(bySize);
  expect(await list('order=size&limit=1&page=2')).toEqual([middle?.slug]);
  expect(await list('order=newest')).toEqual([middle?.slug, large?.slug, small?.slug]);
  const { status } = await rowhouse.call('GET', '/projects?order=name');
  expect(status).toBe(400);
});
