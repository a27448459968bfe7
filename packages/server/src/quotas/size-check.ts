// The size check: SQL that runs before the commit, in the transaction that it decides about, and makes it fail if the project would
// be over its limit.
import type { Admission } from './headroom.ts';

/** How the size has to be checked before the commit. */
export type Measure = Omit<Admission, 'extra'> &
  Readonly<{
    /** The project's own size is compared with what it was before. */
    comparesOwn: boolean;
    /** On disk no more than `cap`, whatever is compared. */
    isCapped: boolean;
    extra: number;
    /** Bytes that earlier attempts of this statement have left on disk. */
    left: number;
  }> & {
    /** The most that inserts without a size check can still add. Set when supervision begins: no such insert starts after that. */
    pending: number;
  };

type SizeCheck = string | Readonly<{ text: string; parameters: readonly string[] }>;

/** The size of the project before a statement that must not make it larger. */
export const ownSizeText = 'select rowhouse.own_size()::pg_catalog.text';

/**
 * Until its deadline nothing can have used up the headroom, so check_size, which takes longer than all the rest, is not
 * called. From here on the transaction is read-only: a deferred trigger can defer another one until the commit.
 */
const checkText = `select pg_catalog.set_config('transaction_read_only', 'on', true), (
  select rowhouse.check_size($1, $2, $3, $4)
  where pg_catalog.clock_timestamp() operator(pg_catalog.>=) pg_catalog.to_timestamp($4::pg_catalog.float8))`;

/** Deferred constraints are checked first, because their triggers may write. */
export function sizeCheck(measure: Measure, own: number | null): SizeCheck[] {
  const { ceiling, cap, isCapped, extra, left, deadline, pending } = measure;
  const allowance = own === null ? -1 : Math.max(0, own - left + extra);
  const [most, capped] = [ceiling, cap].map((bytes) => Math.max(0, bytes - pending)) as [number, number];
  const parameters = [most, allowance, isCapped ? capped : -1].map((bytes) => String(Math.floor(bytes)));
  return [
    'set constraints all immediate',
    { text: checkText, parameters: [...parameters, String(pending > 0 ? 0 : deadline)] },
  ];
}

/** For statements that commit together. Both have headroom: neither is compared with the size before. */
export function strictest(one: Measure, other: Measure): Measure {
  const [ceiling, cap, deadline] = (['ceiling', 'cap', 'deadline'] as const).map((part) =>
    Math.min(one[part], other[part]),
  ) as [number, number, number];
  return { ...one, ceiling, cap, deadline, pending: Math.max(one.pending, other.pending) };
}
