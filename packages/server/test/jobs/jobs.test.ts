import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { newId } from '../../src/control/new-id.ts';
import { runner } from '../../src/control/presence.ts';
import type { JobRun } from '../../src/jobs/jobs.ts';
import { sql } from '../../src/postgres/sql.ts';
import { createProject } from '../../src/projects/create.ts';
import { noteLeft } from '../../src/projects/reconcile.ts';
import { databaseExists } from '../../src/servers/databases/provision.ts';
import { api, jobEnd, openGate, openSecondProcess, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
const deps = () => rowhouse.service.deps;

/** A job that fills a project and ends when the test says so. */
async function startFilling(service = rowhouse) {
  const [account] = await deps().control.query<{ id: string }>(sql`select id from accounts`);
  const accountId = account?.id ?? '';
  const id = newId();
  const { project, apiKey } = await createProject(
    service.service.deps,
    accountId,
    { name: 'Filled' },
    { issuer: null, filledBy: id },
  );
  let finish: (result: Record<string, unknown>) => void = () => {};
  let fail: (error: Error) => void = () => {};
  let run: JobRun | undefined;
  const job = await service.service.deps.jobs.start(
    { id, kind: 'import', accountId, projectId: project.id },
    (started) => {
      run = started;
      return new Promise((resolve, reject) => {
        finish = resolve;
        fail = reject;
        started.signal.addEventListener('abort', () => reject(new Error('aborted')));
      });
    },
  );
  const progress = (fraction: number) => run?.progress(fraction);
  return {
    job,
    project,
    apiKey,
    finish: (result = {}) => finish(result),
    fail: () => fail(new Error('secret')),
    progress,
  };
}

const getJob = async (id: string, key = rowhouse.accountKey) =>
  rowhouse.call('GET', `${api}/jobs/${id}`, { key });
const ended = (id: string) => jobEnd(rowhouse, id);
const query = (slug: string, key: string) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query: 'select 1 as one' } });

/** Neither the project nor its database nor its keys exist any more. */
async function expectNothingLeft({ id, slug }: { id: string; slug: string }, apiKey: string) {
  expect((await rowhouse.call('GET', `/projects/${slug}`)).status).toBe(404);
  expect((await query(slug, apiKey)).status).toBe(401);
  expect(await databaseExists(deps().server, id)).toBe(false);
}

describe('a project that a job fills', () => {
  it('cannot be used before the job is done, and can be used at once afterwards', async () => {
    const { job, project, apiKey, finish, progress } = await startFilling();
    expect(job).toMatchObject({
      kind: 'import',
      status: 'running',
      progress: 0,
      project: project.slug,
      ended_at: null,
    });
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}`);
    expect(body.project.status).toBe('creating');
    for (const key of [apiKey, rowhouse.accountKey]) {
      const refused = await query(project.slug, key);
      expect([refused.status, refused.body.error.code, refused.body.error.details]).toEqual([
        409,
        'project_not_ready',
        { job: job.id },
      ]);
    }
    expect((await rowhouse.call('GET', `/projects/${project.slug}/connection`)).status).toBe(409);
    expect((await rowhouse.call('DELETE', `/projects/${project.slug}`)).status).toBe(409);
    progress(0.5);
    await until('the progress is reported', async () => (await getJob(job.id)).body.job.progress === 0.5);
    finish({ tables: 3 });
    expect(await ended(job.id)).toMatchObject({
      status: 'done',
      progress: 1,
      result: { tables: 3 },
      error: null,
    });
    for (const key of [apiKey, rowhouse.accountKey])
      expect((await query(project.slug, key)).body.rows).toEqual([{ one: 1 }]);
    expect((await rowhouse.call('GET', `/projects/${project.slug}`)).body.project.status).toBe('ready');
    // The key of the project sees its jobs.
    expect((await getJob(job.id, apiKey)).status).toBe(200);
  });

  it('is dropped when the job fails, and the error reveals nothing of the service', async () => {
    const { job, project, apiKey, fail } = await startFilling();
    fail();
    const end = await ended(job.id);
    expect([end.status, end.error.code, end.project]).toEqual(['failed', 'internal_error', null]);
    expect(JSON.stringify(end)).not.toContain('secret');
    await expectNothingLeft(project, apiKey);
  });

  it('is dropped when the job is cancelled, in whichever process it runs', async () => {
    const second = await openSecondProcess(rowhouse);
    try {
      const { job, project, apiKey } = await startFilling(second);
      expect((await rowhouse.call('DELETE', `${api}/jobs/${job.id}`)).status).toBe(202);
      expect((await ended(job.id)).status).toBe('cancelled');
      await expectNothingLeft(project, apiKey);
      // A repeat changes nothing.
      const again = await rowhouse.call('DELETE', `${api}/jobs/${job.id}`);
      expect([again.status, again.body.job.status]).toEqual([202, 'cancelled']);
    } finally {
      await second.stop();
    }
  });

  it('is dropped when the service stops', async () => {
    const second = await openSecondProcess(rowhouse);
    const { job, project, apiKey } = await startFilling(second);
    await second.stop();
    expect(await ended(job.id)).toMatchObject({ status: 'failed', error: { code: 'unavailable' } });
    await expectNothingLeft(project, apiKey);
  });

  it('is dropped by the background work when the process of the job died', async () => {
    const { job, project, apiKey, finish } = await startFilling();
    // As if there had been no heartbeat for a minute. The heartbeat comes every second: try until it was faster.
    await until('the job counts as dead', async () => {
      await deps().control.query(sql`
        update jobs set alive_until = now() - interval '1 second' where id = ${job.id} and status = 'running'`);
      await deps().control.query(sql`
        update projects set created_at = now() - interval '2 minutes' where id = ${project.id}`);
      await noteLeft(deps());
      return (await getJob(job.id)).body.job.status === 'failed';
    });
    await until('the project is gone', async () => !(await databaseExists(deps().server, project.id)));
    // What the process says later does not count.
    finish();
    expect((await getJob(job.id)).body.job).toMatchObject({
      status: 'failed',
      error: { code: 'unavailable' },
    });
    await until('nothing is left', async () => (await query(project.slug, apiKey)).status === 401);
    await expectNothingLeft(project, apiKey);
  });
});

describe('a job whose process is gone', () => {
  const control = () => deps().control;
  /** Its process said `silentS` ago that it lives. */
  const insert = async (runnerOf: number | null, silentS: number): Promise<string> => {
    const id = newId();
    await control().query(sql`
      insert into jobs (id, kind, account_id, runner, alive_until)
      select ${id}, 'import', (select id from accounts limit 1), ${runnerOf}::int,
             now() + make_interval(secs => ${60 - silentS}::int)`);
    return id;
  };

  it('is ended within seconds, and no other one', { timeout: 60_000 }, async () => {
    const other = 1_234_567;
    // Its process lives and is silent: it may hang. Then an earlier version, which has no lock.
    const kept = [await insert(runner, 10), await insert(null, 10)];
    // It says that it lives, and has no lock for the moment.
    const beating = await insert(other, 0);
    const beat = setInterval(
      () =>
        void control()
          .query(sql`update jobs set alive_until = now() + interval '60 seconds' where id = ${beating}`)
          .catch(() => {}),
      500,
    );
    // It is connected again before the second look.
    const back = await insert(-other, 10);
    const lost = await insert(other, 5);
    try {
      await control().session(async (session) => {
        await sleep(1_500);
        await session.query(sql`select pg_advisory_lock_shared(hashtext('rowhouse runner'), ${-other}::int)`);
        expect(await jobEnd(rowhouse, lost, 20_000)).toMatchObject({
          status: 'failed',
          error: { code: 'unavailable' },
        });
        await sleep(5_000);
        for (const id of [...kept, beating, back]) expect((await getJob(id)).body.job.status).toBe('running');
      });
      // Now its lock is gone for good.
      await until('it has ended', async () => (await getJob(back)).body.job.status === 'failed', 20_000);
    } finally {
      clearInterval(beat);
      await control().query(sql`delete from jobs where id = any (${[...kept, beating, back, lost]}::text[])`);
    }
  });
});

describe('a job', () => {
  it('is visible only to its account and to keys of its project', async () => {
    const { job, finish, apiKey } = await startFilling();
    const other = await rowhouse.project('Other');
    const hidden = await getJob(job.id, other.key);
    expect([hidden.status, hidden.body.error.code]).toEqual([404, 'job_not_found']);
    expect((await rowhouse.call('DELETE', `${api}/jobs/${job.id}`, { key: other.key })).status).toBe(404);
    for (const id of ['nosuchjob', '%00', 'a'.repeat(200)]) expect((await getJob(id)).status).toBe(404);
    const listed = async (key: string) =>
      (await rowhouse.call('GET', `${api}/jobs`, { key })).body.jobs.map(({ id }: { id: string }) => id);
    expect((await listed(rowhouse.accountKey))[0]).toBe(job.id);
    expect(await listed(other.key)).toEqual([]);
    finish();
    expect((await ended(job.id)).status).toBe('done');
    expect(await listed(apiKey)).toEqual([job.id]);
  });
});

it('a flood of jobs of one kind is refused, and other kinds run', async () => {
  const [account] = await deps().control.query<{ id: string }>(sql`select id from accounts`);
  const gate = openGate();
  const start = (kind: 'restore' | 'verify') =>
    deps().jobs.start({ kind, accountId: account?.id ?? '' }, async () => {
      await gate.passed;
      return {};
    });
  const started = await Promise.allSettled(Array.from({ length: 12 }, () => start('restore')));
  const refused = started.filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength(4);
  expect(refused[0]).toMatchObject({ reason: { code: 'overloaded' } });
  const other = await start('verify');
  gate.open();
  expect((await ended(other.id)).status).toBe('done');
  await until('there is room again', () =>
    start('restore').then(
      () => true,
      () => false,
    ),
  );
});
