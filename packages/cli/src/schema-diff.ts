// The SQL that turns one schema into another, for a person to read before it is applied.
import type { ColumnDef, SchemaObject } from './schema-objects.ts';

/** Statements, without semicolons. Those that begin with `--` are notes: what has to be written by hand. */
export function diffSchemas(before: readonly SchemaObject[], after: readonly SchemaObject[]): string[] {
  const keyOf = ({ kind, id }: SchemaObject) => `${kind} ${id}`;
  const [old, now] = [before, after].map((all) => new Map(all.map((one) => [keyOf(one), one])));
  const isSame = (one: SchemaObject) =>
    JSON.stringify(plain(one)) === JSON.stringify(plain(old?.get(keyOf(one))));
  const gone = before.filter((one) => !now?.has(keyOf(one)));
  const added = after.filter((one) => !old?.has(keyOf(one)));
  const changed = after.filter((one) => old?.has(keyOf(one)) && !isSame(one));
  const lost = new Set(gone.filter(({ kind }) => kind === 'table').map(({ id }) => id));
  const dropped = [
    // DROP TABLE also drops the columns, keys and indexes of the table. Defaults, triggers, policies and references get a
    // statement of their own before it: they use functions or other tables, which may be dropped before this one.
    ...gone.filter(({ parent, kind, rank }) => !lost.has(parent ?? '') || usesOthers(kind, rank)),
    ...changed.filter(({ kind }) => replaced.has(kind)).map((one) => old?.get(keyOf(one)) as SchemaObject),
  ].filter(({ undo }) => undo !== '');
  // A column that is added to rows gets its default at once.
  const inline = new Set(
    changed.flatMap(({ kind, id, columns }) => {
      const known = old?.get(`${kind} ${id}`)?.columns?.map(({ name }) => name);
      return (columns ?? []).filter(({ name }) => !known?.includes(name)).map(({ name }) => `${id}.${name}`);
    }),
  );
  const made = [...added, ...changed].sort((a, b) => a.rank - b.rank || (a.id < b.id ? -1 : 1));
  return [
    // A function can use what is made after it, such as a view.
    ...(made.some(({ kind }) => kind === 'function')
      ? ["select pg_catalog.set_config('check_function_bodies', 'off', true)"]
      : []),
    ...dropped.sort((a, b) => b.rank - a.rank).map(({ undo }) => undo),
    ...made.flatMap((one) => {
      const previous = old?.get(keyOf(one));
      if (previous && !replaced.has(one.kind)) return change(previous, one);
      return one.kind === 'default' && inline.has(one.id) ? [] : [create(one)];
    }),
  ];
}

const primaryRank = 50;
const usesOthers = (kind: string, rank: number) =>
  ['default', 'trigger', 'policy'].includes(kind) || (kind === 'constraint' && rank > primaryRank);

/** Dropped and made again. */
const replaced = new Set(['constraint', 'index', 'view', 'trigger', 'policy', 'row security']);

/** The rank says only the order: that of a view depends on others. */
function plain(one: SchemaObject | undefined): unknown {
  return one && { ...one, rank: 0, columns: one.columns?.map(({ fallback: _, ...column }) => column) };
}

function create({ sql, columns, suffix, kind }: SchemaObject): string {
  if (kind !== 'table') return sql;
  if (suffix?.startsWith('partition of')) return `${sql} ${suffix}`;
  const lines = (columns ?? []).map((column) => `  ${defOf(column)}`);
  return `${sql} (\n${lines.join(',\n')}\n)${suffix ? ` ${suffix}` : ''}`;
}

function change(before: SchemaObject, after: SchemaObject): string[] {
  if (after.kind === 'table') return changeColumns(before, after);
  if (after.kind === 'enum') return changeLabels(before, after);
  // CREATE OR REPLACE, SET DEFAULT, GRANT, COMMENT and OWNED BY replace what was there.
  if (['function', 'default', 'grants', 'comment', 'owner'].includes(after.kind)) return [after.sql];
  return [byHand(`the ${after.kind} ${after.id} differs. It should be: ${after.sql}`)];
}

function changeColumns(before: SchemaObject, after: SchemaObject): string[] {
  const alter = `alter table ${after.id}`;
  const [old, now] = [before.columns ?? [], after.columns ?? []];
  const previous = new Map(old.map((column) => [column.name, column]));
  const wanted = new Set(now.map(({ name }) => name));
  return [
    ...(before.suffix === after.suffix ? [] : [byHand(`the partitioning of ${after.id} differs.`)]),
    ...(before.sql === after.sql ? [] : [byHand(`the kind of ${after.id} differs: ${after.sql}`)]),
    ...old.filter(({ name }) => !wanted.has(name)).map(({ name }) => `${alter} drop column ${name}`),
    ...now.flatMap((column) => {
      const { name, def, notNull } = column;
      const was = previous.get(name);
      if (!was) return [`${alter} add column ${defOf(column, true)}`];
      const isPlain = !/ generated /.test(def + was.def);
      const changes = [
        ...(was.def !== def && isPlain
          ? [`${alter} alter column ${name} type ${def} using ${name}::${def}`]
          : []),
        ...(was.def !== def && !isPlain
          ? [byHand(`the column ${name} of ${after.id} should be: ${def}`)]
          : []),
        ...(was.notNull !== notNull
          ? [`${alter} alter column ${name} ${notNull ? 'set' : 'drop'} not null`]
          : []),
      ];
      return changes;
    }),
  ];
}

function changeLabels(before: SchemaObject, { id, labels, sql }: SchemaObject): string[] {
  const [old, now] = [before.labels ?? [], labels ?? []];
  const kept = now.filter((label) => old.includes(label));
  if (kept.join('\0') !== old.join('\0'))
    return [byHand(`values of the type ${id} were removed or moved. It should be: ${sql}`)];
  const quote = (text: string) => `'${text.replaceAll("'", "''")}'`;
  return now.flatMap((label, index) => {
    if (old.includes(label)) return [];
    const before_ = now[index - 1];
    const place = before_ === undefined ? `before ${quote(now[index + 1] ?? '')}` : `after ${quote(before_)}`;
    return [`alter type ${id} add value ${quote(label)} ${place}`];
  });
}

const defOf = ({ name, def, notNull, fallback }: ColumnDef, hasFallback = false) =>
  `${name} ${def}${hasFallback && fallback ? ` default ${fallback}` : ''}${notNull ? ' not null' : ''}`;
const byHand = (text: string) => `-- By hand: ${text.replaceAll('\n', '\n-- ')}`;
