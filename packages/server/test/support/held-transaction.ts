// A transaction that stays open while a test looks at what waits for its locks.
import { type Address, openDatabase, type Queryable } from '../../src/postgres/admin/database.ts';
import { openGate } from './helpers.ts';

/** Returns what ends it, once `run` has taken the locks. */
export async function holdTransaction(
  at: Address,
  run: (transaction: Queryable) => Promise<unknown>,
): Promise<() => Promise<void>> {
  const database = openDatabase(at, { max: 1 });
  const [locked, over] = [openGate(), openGate()];
  const transaction = database.transaction(async (inside) => {
    await run(inside);
    locked.open();
    await over.passed;
  });
  // A transaction that fails ends before the locks are taken, and rejects.
  await Promise.race([locked.passed, transaction]);
  return async () => {
    over.open();
    await transaction;
    await database.end();
  };
}
