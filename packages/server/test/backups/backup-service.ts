// What the tests of backups to a folder share: a service on the PostgreSQL of a lab that stores its backups there, its jobs,
// and what it says of them.
import { expect, onTestFinished } from 'vitest';
import type { BackupOptions } from '../../src/backups/backups.ts';
import type { Lab } from '../support/backup-lab.ts';
import {
  api,
  jobEnd,
  openTestService,
  type TestService,
  type TestServiceOptions,
  until,
} from '../support/helpers.ts';

export const minutes = 60_000;

export function backupsIn(folder: string): BackupOptions {
  return { location: { kind: 'folder', folder }, reserveBytes: 0, retentionDays: 7, rateMb: 0 };
}

/** It stops at the end of the test, if the test has not stopped it. */
export async function openWithBackups(
  lab: Lab,
  folder: string,
  more: TestServiceOptions = {},
): Promise<TestService> {
  const service = await openTestService({
    at: lab.engine.address,
    masterKey: lab.masterKey,
    spares: 0,
    backups: backupsIn(folder),
    ...more,
  });
  let isStopped = false;
  const { stop } = service;
  service.stop = async () => {
    if (!isStopped) await stop();
    isStopped = true;
  };
  onTestFinished(() => service.stop());
  return service;
}

export const statusOf = async (service: TestService) => (await service.call('GET', `${api}/backups`)).body;

export const firstBackup = (service: TestService) =>
  until('the first backup', async () => (await statusOf(service)).backups?.length > 0, 2 * minutes);

export const allStored = (service: TestService) =>
  until('all WAL is stored', async () => (await statusOf(service)).lag_bytes === 0, 2 * minutes);

/** Starts a job of the backups, and returns it as it ended. */
export async function runJob(service: TestService, target: string, body?: object) {
  const started = await service.call('POST', `${api}${target}`, body ? { body } : {});
  expect(started.status, JSON.stringify(started.body)).toBe(202);
  return jobEnd(service, started.body.job.id, 2 * minutes);
}
