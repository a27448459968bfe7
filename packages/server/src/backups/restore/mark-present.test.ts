// A restore to the present while nothing can be stored: what is offered instead can really be restored.
import { expect, it } from 'vitest';
import { newRepository } from '../../../test/support/stored-repository.ts';
import { RowhouseError } from '../../errors/errors.ts';
import { readBackups } from '../repository/descriptions.ts';
import { doubtMs, listRestorable, listWal } from '../restorable.ts';
import { checkStored } from './mark-present.ts';

const moment = (hour: number, minute: number, second = 0) =>
  new Date(Date.UTC(2026, 10, 16, hour, minute, second));

it('a time that may not be stored yet is refused, and no later one is offered', async () => {
  const { repository, storeBackup } = newRepository();
  await storeBackup(1, 1, 1);
  await storeBackup(2, 1, 2);
  const { backups } = await readBackups(repository);
  const wal = await listWal(repository, backups);
  const storedAt = moment(2, 30);
  for (const segments of wal.values()) for (const segment of segments) segment.storedAt = storedAt;
  const look = async () => {
    const restorable = listRestorable(backups, wal, 1);
    return { backups, damaged: [], usable: backups, restorable };
  };
  const refusal = async (target: Date) => {
    const error = await checkStored({ look }, target).catch((thrown: unknown) => thrown);
    if (!(error instanceof RowhouseError)) throw error;
    return error;
  };
  // As late as storing: whether it was committed before is not known.
  const target = moment(2, 29, 55);
  const certain = new Date(storedAt.getTime() - doubtMs);
  const { details, hint, message } = await refusal(target);
  expect(details).toEqual({
    retryable: true,
    oldest_restorable: moment(1, 0).toISOString(),
    newest_restorable: certain.toISOString(),
    restorable: [{ from: moment(1, 0).toISOString(), to: certain.toISOString() }],
  });
  expect([message, hint]).toEqual([
    expect.stringContaining('not in the backups yet'),
    expect.stringContaining(`to ${certain.toISOString()}`),
  ]);
  await checkStored({ look }, certain);

  // Right after a backup, its own WAL is not certain, and the backup before it serves.
  storedAt.setTime(moment(2, 0, 5).getTime());
  const early = await refusal(moment(2, 0, 4));
  expect(early.details).toMatchObject({ newest_restorable: moment(1, 59, 55).toISOString() });
  await checkStored({ look }, moment(1, 59, 55));
});
