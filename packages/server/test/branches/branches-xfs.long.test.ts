// A branch on a file system that clones files: it takes no space until one of the two changes, and is a copy all the same.
import { execFileSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { launch, newAccountKey, newDataFolder, type Running } from '../support/process.ts';
import { xfsDisk } from '../support/small-disk.ts';

const mb = 1024 * 1024;

async function run(service: Running, slug: string, query: string) {
  const { status, body } = await service.call('POST', `/projects/${slug}/query`, { body: { query } });
  expect([query, status, body.error]).toEqual([query, 200, undefined]);
  return body.rows;
}

/** Inserts rows one after the other until it is stopped. */
function startWriter(service: Running, slug: string) {
  const [acknowledged, problems]: [number[], unknown[]] = [[], []];
  let isOver = false;
  const work = (async () => {
    for (let id = 1; !isOver; id++) {
      const query = `insert into ledger values (${id})`;
      const { status, body } = await service.call('POST', `/projects/${slug}/query`, { body: { query } });
      if (status === 200) acknowledged.push(id);
      else problems.push([status, body.error]);
    }
  })();
  return {
    acknowledged,
    stop: async () => {
      isOver = true;
      await work;
      return problems;
    },
  };
}

it('a branch on XFS takes no space, fails no request, and has nothing in common with its parent', async ({
  skip,
}) => {
  const disk = xfsDisk(3_000);
  if (!disk) return skip();
  const service = await launch({
    ROWHOUSE_DATA: newDataFolder(disk),
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_SPARES: '0',
  });
  const create = async (target: string, body: object) => {
    const answer = await service.call('POST', target, { body });
    expect([answer.status, answer.body.error]).toEqual([201, undefined]);
    return answer.body.project.slug as string;
  };
  const parent = await create('/projects', { name: 'Parent', limit_mb: 1_000 });
  await run(service, parent, 'create table ledger (id int primary key)');
  await run(
    service,
    parent,
    'create table bulk as select n, repeat(md5(n::text), 30) as v from generate_series(1, 100000) as n',
  );
  const sum = 'select count(*), sum(hashtext(v))::text as sum from bulk';
  const before = await run(service, parent, sum);
  const writer = startWriter(service, parent);
  execFileSync('sync', ['-f', disk]);
  const free = () => statfsSync(disk).bavail * statfsSync(disk).bsize;
  const freeBefore = free();
  const branch = await create(`/projects/${parent}/branches`, { name: 'Branch' });
  execFileSync('sync', ['-f', disk]);
  const takenMb = (freeBefore - free()) / mb;
  expect(await writer.stop()).toEqual([]);
  // The parent stores more than 100 MB. WAL of the writer, and what PostgreSQL writes at the checkpoint, count too.
  expect(takenMb).toBeLessThan(40);

  const [{ count }] = await run(service, branch, 'select count(*) from ledger');
  expect(writer.acknowledged.length).toBeGreaterThanOrEqual(count);
  expect(await run(service, branch, sum)).toEqual(before);
  await run(service, branch, `update bulk set v = 'changed'`);
  expect(await run(service, parent, sum)).toEqual(before);
  expect((await run(service, branch, "select count(*) from bulk where v = 'changed'"))[0].count).toBe(
    100_000,
  );
});
