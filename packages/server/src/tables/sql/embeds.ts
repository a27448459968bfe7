// Resolves which tables a request embeds, and by which foreign keys. An ambiguous name is refused with a list of the
// choices: the meaning of a guess would change as soon as another foreign key is added.
import { errors } from '../../errors/errors.ts';
import type { MaySee, Reference, Table, TableName } from '../catalog/catalog.ts';
import { nearestName } from '../catalog/nearest.ts';
import { shorten } from '../request/scanner.ts';
import type { Embed, Item } from '../request/select.ts';

export type Related = Readonly<{ reference: Reference; table: Table; through: Table | null }>;

/** For every embedded table of a request, at any depth. */
export type Relations = ReadonlyMap<Embed, Related>;

export type LoadTables = (oids: readonly number[]) => Promise<readonly Table[]>;

/** Descriptions from the catalog are inconsistent with each other and must be read again. */
export class TableChangedError extends Error {
  override readonly name = 'TableChangedError';
}

/** Loads the tables of one level at once. Foreign keys to or from tables that `maySee` excludes are ignored. */
export async function relate(
  load: LoadTables,
  table: Table,
  items: readonly Item[],
  maySee: MaySee = () => true,
): Promise<Relations> {
  const relations = new Map<Embed, Related>();
  let level: { table: Table; items: readonly Item[] }[] = [{ table, items }];
  while (level.length > 0) {
    const found = level.flatMap(({ table: from, items: inside }) =>
      inside
        .filter((item) => item.is === 'embed')
        .map((embed) => ({ embed, reference: choose(from, embed, maySee) })),
    );
    if (found.length === 0) break;
    const oids = found.flatMap(({ reference: { target, through } }) => [
      target.oid,
      ...(through ? [through.table.oid] : []),
    ]);
    const tables = new Map((await load([...new Set(oids)])).map((one) => [one.oid, one]));
    const get = ({ oid, name, version }: TableName): Table => {
      const one = tables.get(oid);
      // The reference also describes this table's columns and keys, which may have changed.
      if (one?.version !== version) throw new TableChangedError(`${name} is gone or another`);
      return one;
    };
    level = found.map(({ embed, reference }) => {
      const through = reference.through ? get(reference.through.table) : null;
      const related = { reference, table: get(reference.target), through };
      relations.set(embed, related);
      return { table: related.table, items: embed.items };
    });
  }
  return relations;
}

/** Finds a reference by the name of the other table, of the foreign key, or of its only column; `!hint` narrows it. */
export function choose(table: Table, embed: Embed, maySee: MaySee = () => true): Reference {
  const all = table.references.filter((one) => isSeen(one, maySee));
  const named = all.filter((reference) => isNamed(reference, embed.name));
  const candidates = embed.hint === null ? named : named.filter((one) => isHinted(one, embed.hint as string));
  const [only] = candidates;
  if (only && candidates.length === 1) return only;
  // A table that references itself: the column's name means the referenced row, the key's name the referencing rows.
  const { hint } = embed;
  const isOneKey = candidates.every(({ name, through }) => name === only?.name && !through);
  if (hint !== null && isOneKey) {
    const chosen = candidates.find((one) => one.isOwn === isColumn(one, hint));
    if (chosen) return chosen;
  }
  const choices = candidates.length > 0 ? candidates : named;
  throw refuse(table, embed, choices, all);
}

function isNamed({ target, name, columns, isOwn, through }: Reference, given: string): boolean {
  if (given === target.name || given === `${target.schema}.${target.name}`) return true;
  if (through) return false;
  return given === name || (isOwn && columns.length === 1 && columns[0] === given);
}

function isHinted(reference: Reference, hint: string): boolean {
  const { name, through, targetColumns, isOwn } = reference;
  if (through) return hint === through.table.name || hint === through.farName;
  if (hint === name || isColumn(reference, hint)) return true;
  return !isOwn && targetColumns.length === 1 && targetColumns[0] === hint;
}

function isColumn({ isOwn, columns }: Reference, name: string): boolean {
  return isOwn && columns.length === 1 && columns[0] === name;
}

function isSeen({ target, through }: Reference, maySee: MaySee): boolean {
  return maySee(target) && (through === null || maySee(through.table));
}

function refuse(
  table: Table,
  embed: Embed,
  candidates: readonly Reference[],
  all: readonly Reference[],
): Error {
  const name = shorten(embed.name);
  if (candidates.length > 0) {
    const choices = [...new Set(candidates.map(spellChoice))];
    const problem = embed.hint === null ? 'is ambiguous' : `has no foreign key "${shorten(embed.hint)}"`;
    return errors.invalidRequest(
      [{ path: 'select', problem: `"${name}" ${problem}: ${choices.join(', ')}` }],
      'Name the foreign key after an exclamation mark, as listed.',
    );
  }
  const names = new Set(all.map(({ target }) => target.name));
  const near = nearestName(embed.name, names);
  const advice = near
    ? `; the nearest is "${near}"`
    : names.size > 0
      ? `; related tables: ${[...names].slice(0, 20).join(', ')}`
      : '';
  return errors.invalidRequest([
    { path: 'select', problem: `no foreign key connects "${table.name}" and "${name}"${advice}` },
  ]);
}

function spellChoice({ target, name, through, isOwn, columns }: Reference): string {
  if (through) return `${target.name}!${through.table.name} (${target.name}!${through.farName})`;
  return isOwn && columns.length === 1 ? `${target.name}!${columns[0]}` : `${target.name}!${name}`;
}
