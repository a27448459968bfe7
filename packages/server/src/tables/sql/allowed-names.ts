// Names in a request that PostgreSQL looks up in the catalog: types in casts, and text search configurations. A caller
// who may not see the whole project may use only PostgreSQL's built-in ones; otherwise errors would reveal which names
// exist.
import { errors } from '../../errors/errors.ts';
import type { Table } from '../catalog/catalog.ts';
import type { Condition, Test } from '../request/conditions.ts';
import { shorten } from '../request/scanner.ts';
import type { Item } from '../request/select.ts';
import { isEnumOf, isKnownType, noSuchType } from './casts.ts';
import type { Relations } from './embeds.ts';

type Names = Readonly<{ select: readonly Item[]; where: readonly Condition[] }>;

const configurations = new Set(
  `simple arabic armenian basque catalan danish dutch english estonian finnish french german greek hindi hungarian
   indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish tamil turkish
   yiddish`.split(/\s+/),
);

/** null: every name is allowed. Otherwise the error for a caller who may not see the whole project. */
export function unknownName({ select, where }: Names, table: Table, relations: Relations): Error | null {
  return ofConditions(where) ?? ofItems(select, table, relations);
}

function ofItems(items: readonly Item[], table: Table, relations: Relations): Error | null {
  for (const item of items) {
    const found = ofItem(item, table, relations);
    if (found) return found;
  }
  return null;
}

function ofItem(item: Item, table: Table, relations: Relations): Error | null {
  if (item.is === 'all') return null;
  if (item.is === 'column') {
    const { cast } = item;
    return cast && !isKnownType(cast) && !isEnumOf(table, cast) ? noSuchType(cast) : null;
  }
  const related = relations.get(item);
  return ofConditions(item.where) ?? (related ? ofItems(item.items, related.table, relations) : null);
}

function ofConditions(conditions: readonly Condition[]): Error | null {
  for (const condition of conditions) {
    const found = condition.is === 'test' ? ofTest(condition) : ofConditions(condition.conditions);
    if (found) return found;
  }
  return null;
}

function ofTest(test: Test): Error | null {
  if (!('config' in test) || test.config === null) return null;
  if (configurations.has(test.config.replace(/^pg_catalog\./, ''))) return null;
  const problem = `"${shorten(test.config)}" is not a built-in text search configuration of PostgreSQL`;
  return errors.invalidRequest([{ path: shorten(test.parameter), problem }]);
}
