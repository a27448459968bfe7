// The receiver of WAL goes on for months, in rounds of a second: no round may leave something behind.
import { getEventListeners } from 'node:events';
import { queryObjects } from 'node:v8';
import { expect, it, onTestFinished } from 'vitest';
import { ensureSlot } from '../../src/backups/wal/slot.ts';
import { receiveWal } from '../../src/backups/wal/wal-receiver.ts';
import { newFolder, repositoryOf, startLab } from '../support/backup-lab.ts';
import { until } from '../support/helpers.ts';

/** What Node.js keeps of the signals that were made from this one. */
function dependentsOf(signal: AbortSignal): number {
  const name = Object.getOwnPropertySymbols(signal).find(
    ({ description }) => description === 'kDependantSignals',
  );
  const kept = name && (signal as unknown as Record<symbol, Set<unknown> | undefined>)[name];
  return kept?.size ?? 0;
}

/** After a collection of garbage. */
const promises = () => Number(queryObjects(Promise, { format: 'count' }));

it('a round of the receiver leaves nothing behind', { timeout: 120_000 }, async () => {
  const known = new AbortController();
  AbortSignal.any([known.signal]);
  // Otherwise this test would find nothing in any case.
  expect(dependentsOf(known.signal)).toBe(1);

  const lab = await startLab();
  const slot = 'rowhouse_backup_test';
  await ensureSlot(lab.database, slot);
  const stopping = new AbortController();
  let rounds = 0;
  const running = receiveWal({
    repository: await repositoryOf(lab, newFolder('repository')),
    address: lab.engine.address,
    maintenance: lab.database,
    slot,
    everyMs: 1,
    segmentBytes: 16 * 1024 * 1024,
    signal: stopping.signal,
    onStored: () => void rounds++,
  });
  running.catch(() => {});
  onTestFinished(async () => {
    stopping.abort();
    await running;
  });
  const reach = (wanted: number) => until(`${wanted} rounds`, async () => rounds >= wanted, 60_000);
  await reach(50);
  const listeners = getEventListeners(stopping.signal, 'abort').length;
  const [before, roundsBefore] = [promises(), rounds];
  await reach(rounds + 200);
  expect(promises() - before).toBeLessThan((rounds - roundsBefore) / 5);
  expect(dependentsOf(stopping.signal)).toBe(0);
  expect(getEventListeners(stopping.signal, 'abort').length).toBeLessThanOrEqual(listeners + 1);
});
