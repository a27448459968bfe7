// The output columns of a result: what `select` names, each under a unique name.
import { errors } from '../../errors/errors.ts';
import { type Column, plainShape, type TypeShape } from '../catalog/catalog.ts';
import { shorten } from '../request/scanner.ts';
import type { Item } from '../request/select.ts';
import { castShape, castSql, isKnownType } from './casts.ts';
import { columnSql, compileField, defaultName, id, type Scope } from './expressions.ts';

export type Output = Readonly<{
  name: string;
  sql: string;
  shape: TypeShape;
  /** The column itself without cast or path, so that a cursor can use its value. */
  isBare: boolean;
  /** The type of a bare column. */
  typeOid?: number;
  /** False for casts that may run code of the project: those from or to types that it defined. */
  isPlain: boolean;
  /** joined: it comes from an embedded table. */
  origin?: 'joined';
}>;

/** Built-in types have smaller oids. */
const firstUserOid = 16384;
const jsonShape: TypeShape = { ...plainShape, is: 'json' };
const textShape: TypeShape = { ...plainShape, is: 'text' };

export function outputsOf(scope: Scope, item: Exclude<Item, { is: 'embed' }>): Output[] {
  if (item.is === 'all') {
    return shownColumns(scope).map(({ name, shape, typeOid }) => {
      return { name, sql: columnSql(scope, name), shape, isBare: true, typeOid, isPlain: true };
    });
  }
  const { field, cast, alias } = item;
  const name = alias ?? defaultName(field);
  if (Buffer.byteLength(name) > 63) {
    throw refuse(`"${shorten(name)}" is longer than 63 bytes; use an alias, such as a:…`);
  }
  const { sql, column, reached } = compileField(scope, field, 'select', false);
  if (cast) {
    // A cast from a type that the project defined can run the project's code, like a cast to one.
    const isPlain = isKnownType(cast) && column.typeOid < firstUserOid;
    return [{ name, sql: `${sql}::${castSql(cast)}`, shape: castShape(cast), isBare: false, isPlain }];
  }
  if (reached) {
    const shape = reached === 'text' ? textShape : jsonShape;
    return [{ name, sql, shape, isBare: false, isPlain: true }];
  }
  return [{ name, sql, shape: column.shape, isBare: true, typeOid: column.typeOid, isPlain: true }];
}

/** "All" leaves out columns that the role may not read. If it may read none, PostgreSQL reports that. */
function shownColumns({ table }: Scope): Column[] {
  const columns = [...table.columns.values()];
  const readable = columns.filter(({ isReadable }) => isReadable);
  return readable.length > 0 ? readable : columns;
}

/** In a JSON object, a second value of the same name would hide the first. */
export function refuseRepeats(names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name))
      throw refuse(
        `"${shorten(name)}" occurs twice; use an alias for one of them, such as a:${shorten(name)}`,
      );
    seen.add(name);
  }
}

export function as(sql: string, name: string): string {
  return sql.endsWith(`.${id(name)}`) ? sql : `${sql} as ${id(name)}`;
}

function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: 'select', problem }]);
}
