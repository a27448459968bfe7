// The columns of a result: what `select` names, each under a name of its own.
import { errors } from '../../errors.ts';
import { type Column, plainShape, type TypeShape } from '../catalog/catalog.ts';
import { shorten } from '../request/scanner.ts';
import type { Item } from '../request/select.ts';
import { castShape, castSql, isKnownType } from './casts.ts';
import { columnSql, compileField, defaultName, id, type Scope } from './expressions.ts';

export type Output = Readonly<{
  name: string;
  sql: string;
  shape: TypeShape;
  /** Of a column just as it is, so that a cursor can take its value. */
  isBare: boolean;
  /** A cast to a type of the project's own runs what the project made. */
  isPlain: boolean;
  /** joined: it is not of the table itself. */
  origin?: 'joined';
}>;

/** PostgreSQL's own types have smaller numbers. */
const firstOwnOid = 16384;
const jsonShape: TypeShape = { ...plainShape, is: 'json' };
const textShape: TypeShape = { ...plainShape, is: 'text' };

export function outputsOf(scope: Scope, item: Exclude<Item, { is: 'embed' }>): Output[] {
  if (item.is === 'all') {
    return shownColumns(scope).map(({ name, shape }) => {
      return { name, sql: columnSql(scope, name), shape, isBare: true, isPlain: true };
    });
  }
  const { field, cast, alias } = item;
  const name = alias ?? defaultName(field);
  if (Buffer.byteLength(name) > 63) {
    throw refuse(`"${shorten(name)}" is longer than 63 bytes: give it another name, as in a:…`);
  }
  const { sql, column, reached } = compileField(scope, field, 'select', false);
  if (cast) {
    // A cast from a type of the project's own can run code of the project's, as one to such a type can.
    const isPlain = isKnownType(cast) && column.typeOid < firstOwnOid;
    return [{ name, sql: `${sql}::${castSql(cast)}`, shape: castShape(cast), isBare: false, isPlain }];
  }
  if (reached) {
    const shape = reached === 'text' ? textShape : jsonShape;
    return [{ name, sql, shape, isBare: false, isPlain: true }];
  }
  return [{ name, sql, shape: column.shape, isBare: true, isPlain: true }];
}

/** What the role may not read is not part of "all"; if that is everything, PostgreSQL says so. */
function shownColumns({ table }: Scope): Column[] {
  const columns = [...table.columns.values()];
  const readable = columns.filter(({ isReadable }) => isReadable);
  return readable.length > 0 ? readable : columns;
}

/** In a JSON object a second value of the same name would hide the first. */
export function refuseRepeats(names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name))
      throw refuse(`"${shorten(name)}" comes twice: give one another name, as in a:${shorten(name)}`);
    seen.add(name);
  }
}

export function as(sql: string, name: string): string {
  return sql.endsWith(`.${id(name)}`) ? sql : `${sql} as ${id(name)}`;
}

function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: 'select', problem }]);
}
