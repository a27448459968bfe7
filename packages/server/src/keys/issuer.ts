// Who issued a key: the person who was signed in. A key stands for the person who issued it: a key that is issued with it counts
// as issued by the same person.
import { errors } from '../errors/errors.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import type { Caller } from './caller.ts';

/**
 * The person's id. null: a key that the start or the operator made, or one that was issued with such a key. Until the transaction
 * ends, no member of the account is removed: whoever removes the issuer waits, and finds the new key. A person who was removed
 * meanwhile, or a key that was revoked, issues none.
 */
export async function holdIssuer(transaction: Queryable, caller: Caller): Promise<string | null> {
  await transaction.query(sql`select from accounts where id = ${caller.accountId} for key share`);
  const person = personOf(caller);
  const [row] = await transaction.query<{ id: string | null }>(
    person
      ? sql`select person_id as id from members where account_id = ${caller.accountId} and person_id = ${person.id}`
      : sql`select issued_by as id from keys where id = ${caller.keyId} and revoked_at is null`,
  );
  if (!row) throw person ? errors.sessionRequired() : errors.invalidApiKey();
  return row.id;
}

/** For lists of keys, as `{ id, email }`. */
export const issuerColumn: Sql = sql`
  (select json_build_object('id', people.id, 'email', people.email) from people where people.id = keys.issued_by)
  as "issuedBy"`;

function personOf(caller: Caller) {
  return caller.kind === 'account' ? caller.person : null;
}
