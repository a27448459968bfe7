// What the tests of restores share: a service with continuous backup on a PostgreSQL of its own, and restores through its API.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import type { BackupLocation } from '../../src/settings/backup-url.ts';
import { type Lab, newFolder } from '../support/backup-lab.ts';
import type { Project } from '../support/exports.ts';
import { jobEnd, openTestService, type TestService, until } from '../support/helpers.ts';

type Options = {
  location?: BackupLocation;
  now?: () => number;
  restores?: { dataFolder: string; isExternal?: boolean; stallMs?: number };
};

/** Returns when there is a backup. `location`: a new folder if it is missing. */
export async function startService(lab: Lab, { location, ...more }: Options = {}): Promise<TestService> {
  const rowhouse = await openTestService({
    at: lab.engine.address,
    masterKey: lab.masterKey,
    restores: { dataFolder: lab.folder },
    backups: {
      location: location ?? { kind: 'folder', folder: newFolder('repository') },
      reserveBytes: 0,
      retentionDays: 7,
      rateMb: 0,
    },
    imports: { folder: newFolder('imports'), allowPrivateHosts: false },
    ...more,
  });
  onTestFinished(() => rowhouse.stop());
  await until('the first backup is there', async () => (await backups(rowhouse)).length > 0, 60_000);
  return rowhouse;
}

export const backups = async (rowhouse: TestService) =>
  (await rowhouse.service.deps.backups?.first.status())?.backups ?? [];

/** Between two commits, so that milliseconds are exact. */
export async function moment(lab: Lab): Promise<string> {
  await sleep(5);
  const [row] = await lab.database.query<{ at: Date }>(sql`select clock_timestamp() as at`);
  await sleep(5);
  return row?.at.toISOString() ?? '';
}

export const ask = (rowhouse: TestService, slug: string, body: object) =>
  rowhouse.call('POST', `/projects/${slug}/restore`, { body });

export const end = (rowhouse: TestService, job: string) => jobEnd(rowhouse, job, 120_000);

export async function restore(rowhouse: TestService, slug: string, to: string) {
  const started = await ask(rowhouse, slug, { to });
  expect([started.status, started.body.error]).toEqual([202, undefined]);
  const { project, api_key: key, job, estimated_seconds: estimate } = started.body;
  expect([project.status, job.kind, job.status, estimate > 0]).toEqual([
    'creating',
    'restore',
    'running',
    true,
  ]);
  const ended = await end(rowhouse, job.id);
  return { ended, copy: { slug: project.slug, id: project.id, key } as Project };
}
