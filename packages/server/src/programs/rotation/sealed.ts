// Everything in the control database that is sealed with the master key, sealed again with another one.
import type { Purpose } from '../../control/seal.ts';
import { sealBytes, unsealBytes } from '../../control/seal.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';

type Column = Readonly<{ table: string; column: string; boundTo: string }>;

/** A new purpose does not compile until it is listed here. `forgotten`: not sealed again. */
const columns: Record<Purpose, Column | 'forgotten'> = {
  'project keys': { table: 'keys', column: 'sealed', boundTo: 'id' },
  'server addresses': { table: 'servers', column: 'address', boundTo: 'name' },
  'second factors': { table: 'people', column: 'totp_sealed', boundTo: 'id' },
  'kept answers': 'forgotten',
  // In the browser of somebody who is signing in. They begin again.
  'sign-in flows': 'forgotten',
};

const atOnce = 500;

export async function sealAgain(transaction: Queryable, from: Buffer, to: Buffer): Promise<void> {
  for (const [purpose, column] of Object.entries(columns) as [Purpose, Column | 'forgotten'][])
    if (column !== 'forgotten') await sealColumn(transaction, purpose, column, from, to);
  await forgetAnswers(transaction);
}

async function sealColumn(
  transaction: Queryable,
  purpose: Purpose,
  { table, column, boundTo }: Column,
  from: Buffer,
  to: Buffer,
): Promise<void> {
  const [where, what, bound] = [sql.id(table), sql.id(column), sql.id(boundTo)];
  const rows = await transaction.query<{ bound: string; sealed: Buffer }>(
    sql`select ${bound} as bound, ${what} as sealed from ${where} where ${what} is not null`,
  );
  for (let at = 0; at < rows.length; at += atOnce) {
    const some = rows.slice(at, at + atOnce);
    const sealed = some.map((row) =>
      sealBytes(to, purpose, unsealBytes(from, purpose, row.sealed, row.bound), row.bound),
    );
    await transaction.query(sql`
      update ${where} set ${what} = new.sealed
      from unnest(${some.map((row) => row.bound)}::text[], ${sealed}::bytea[]) as new (bound, sealed)
      where ${where}.${bound} = new.bound`);
  }
}

/**
 * The responses that are kept for repeated requests: their fingerprints depend on the key and cannot be made again. A repeat is
 * told that the outcome is unknown, and is not executed a second time.
 */
async function forgetAnswers(transaction: Queryable): Promise<void> {
  await transaction.query(sql`
    update repeats set state = case state when 'not_kept' then state else 'unknown' end, answer = null, fingerprint = null`);
}
