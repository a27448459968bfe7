// Describes a project's schema for people and code generators: GET /tables and GET /schema. Always read from the
// catalog, never cached. The SQL already produces the wire format with snake_case names.
import type { Ask } from './catalog.ts';
import { openSchemas } from './catalog-queries.ts';
import { totalOf, withinTotal } from './text-totals.ts';

export type ListedTable = {
  schema: string;
  name: string;
  kind: 'table' | 'partitioned' | 'view' | 'materialized_view' | 'foreign';
  /** From the last VACUUM or ANALYZE; null: unknown, or a view. */
  row_estimate: number | null;
  /** Including indexes. */
  size_bytes: number;
  comment: string | null;
};

export type SchemaDescription = {
  tables: DescribedTable[];
  enums: { schema: string; name: string; values: string[] }[];
  functions: {
    schema: string;
    name: string;
    kind: 'function' | 'procedure' | 'aggregate' | 'window';
    arguments: string;
    returns: string | null;
    language: string;
    volatility: 'immutable' | 'stable' | 'volatile';
    comment: string | null;
  }[];
};

export type DescribedTable = {
  schema: string;
  name: string;
  kind: ListedTable['kind'];
  comment: string | null;
  row_security: boolean;
  columns: DescribedColumn[];
  primary_key: string[];
  uniques: string[][];
  references: {
    name: string;
    columns: string[];
    target: { schema: string; name: string };
    target_columns: string[];
  }[];
};

export type DescribedColumn = {
  name: string;
  type: string;
  /** The type is the row type of a table, and has its name, or is an array of them. Not shown. */
  is_row: boolean;
  not_null: boolean;
  default: string | null;
  identity: 'always' | 'by default' | null;
  generated: 'stored' | 'virtual' | null;
  enum: string | null;
  comment: string | null;
};

export async function listTables(ask: Ask): Promise<ListedTable[]> {
  return JSON.parse((await ask(tables, [])) ?? '[]') as ListedTable[];
}

export async function describeSchema(ask: Ask): Promise<SchemaDescription> {
  return JSON.parse((await ask(schema, [])) ?? '{}') as SchemaDescription;
}

/** `case x when y` would look its operator up through search_path; this form does not. */
export function word(column: string, words: Record<string, string>): string {
  const arms = Object.entries(words).map(([letter, meaning]) => {
    return `when ${column} operator(pg_catalog.=) '${letter}' then '${meaning}'`;
  });
  return `case ${arms.join(' ')} end`;
}

/** Comments and expressions can have any length. text-totals.ts bounds them together. */
const short = (text: string) => `pg_catalog."left"(${text}, 10000)`;

const kind = word('relkind', {
  r: 'table',
  p: 'partitioned',
  v: 'view',
  m: 'materialized_view',
  f: 'foreign',
});

/** Schemas of the project. Tables of `auth` have endpoints too, but they are documented separately. */
export const ownSchemas = `${openSchemas} and nspname operator(pg_catalog.<>) 'auth'`;

/** Partitions are not listed: each is part of its table. */
export const shown = `relkind operator(pg_catalog.=) any ('{r,p,v,m,f}') and not relispartition and ${ownSchemas}
  and pg_catalog.has_schema_privilege(namespace.oid, 'usage')
  and pg_catalog.has_any_column_privilege(class.oid, 'select, insert, update')`;

export const from = `pg_catalog.pg_class as class
  join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) relnamespace`;

/**
 * `own` for a table, `sum` over its partitions for a partitioned one. Separate cases: otherwise the search for
 * partitions would run for every table.
 */
function measured(own: string, sum: string): string {
  return `case when class.relkind operator(pg_catalog.=) any ('{r,m}') then ${own}
      when class.relkind operator(pg_catalog.=) 'p' then (
        select ${sum} from pg_catalog.pg_partition_tree(class.oid) as tree
        join pg_catalog.pg_class as part on part.oid operator(pg_catalog.=) tree.relid
        where part.relkind operator(pg_catalog.=) any ('{r,m}')) end`;
}

const rowEstimate = measured(
  'case when class.reltuples operator(pg_catalog.>=) 0 then class.reltuples::pg_catalog.int8 end',
  'case when pg_catalog.bool_and(part.reltuples operator(pg_catalog.>=) 0) then pg_catalog.sum(part.reltuples)::pg_catalog.int8 end',
);
const sizeBytes = measured(
  'pg_catalog.pg_total_relation_size(class.oid)',
  'pg_catalog.sum(pg_catalog.pg_total_relation_size(part.oid))::pg_catalog.int8',
);

const tableComment = short("pg_catalog.obj_description(class.oid, 'pg_class')");
const byTable = 'nspname, relname';

const tables = `
  select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
    'schema', nspname, 'name', relname, 'kind', kind,
    'row_estimate', row_estimate, 'size_bytes', size_bytes, 'comment', ${withinTotal('comment')}
  ) order by ${byTable}), '[]')
  from (
    select *, ${totalOf('comment', byTable)}
    from (
      select nspname, relname, ${kind} as kind, ${rowEstimate} as row_estimate,
        coalesce(${sizeBytes}, 0) as size_bytes, ${tableComment} as comment
      from ${from} where ${shown}
    ) as entries
  ) as counted`;

function names(relation: string, numbers: string): string {
  return `(
    select coalesce(pg_catalog.json_agg(attname order by place), '[]')
    from pg_catalog.unnest(${numbers}) with ordinality as numbers (number, place)
    join pg_catalog.pg_attribute on attrelid operator(pg_catalog.=) ${relation} and attnum operator(pg_catalog.=) number)`;
}

function isRowType(type: string): string {
  return `exists (
      select from pg_catalog.pg_type as own
      left join pg_catalog.pg_type as element
        on element.oid operator(pg_catalog.=) own.typelem and element.typarray operator(pg_catalog.=) own.oid
      join pg_catalog.pg_class as rows_of
        on rows_of.oid operator(pg_catalog.=) coalesce(element.typrelid, own.typrelid)
      where own.oid operator(pg_catalog.=) ${type} and rows_of.relkind operator(pg_catalog.<>) 'c')`;
}

const keyColumns = names('indrelid', '(indkey::pg_catalog.int2[])[0:indnkeyatts operator(pg_catalog.-) 1]');

/** The columns of all tables, by table: a text counts together with those of other tables. */
const columns = `
  select attrelid, pg_catalog.json_agg(pg_catalog.json_build_object(
    'name', attname, 'type', pg_catalog.format_type(atttypid, atttypmod), 'is_row', ${isRowType('atttypid')},
    'not_null', attnotnull,
    'default', ${withinTotal('default')},
    'identity', ${word('attidentity', { a: 'always', d: 'by default' })},
    'generated', ${word('attgenerated', { s: 'stored', v: 'virtual' })},
    'enum', (
      select pg_catalog.concat(type_in.nspname, '.', type.typname)
      from pg_catalog.pg_type as type
      join pg_catalog.pg_namespace as type_in on type_in.oid operator(pg_catalog.=) typnamespace
      where type.oid operator(pg_catalog.=) atttypid and typtype operator(pg_catalog.=) 'e'),
    'comment', ${withinTotal('comment')}
  ) order by attnum) as list
  from (
    select *, ${totalOf('default', `${byTable}, attnum`)}, ${totalOf('comment', `${byTable}, attnum`)}
    from (
      select nspname, relname, attrelid, attnum, attname, atttypid, atttypmod, attnotnull, attidentity, attgenerated,
        case when attgenerated operator(pg_catalog.=) '' then ${short('pg_catalog.pg_get_expr(adbin, adrelid)')} end as "default",
        ${short('pg_catalog.col_description(attrelid, attnum)')} as comment
      from ${from}
      join pg_catalog.pg_attribute on attrelid operator(pg_catalog.=) class.oid
      left join pg_catalog.pg_attrdef on adrelid operator(pg_catalog.=) attrelid and adnum operator(pg_catalog.=) attnum
      where ${shown} and attnum operator(pg_catalog.>) 0 and not attisdropped
    ) as entries
  ) as counted
  group by attrelid`;

const references = `(
  select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
    'name', conname, 'columns', ${names('conrelid', 'conkey')},
    'target', pg_catalog.json_build_object('schema', target_in.nspname, 'name', target.relname),
    'target_columns', ${names('confrelid', 'confkey')}
  ) order by conname), '[]')
  from pg_catalog.pg_constraint as key
  join pg_catalog.pg_class as target on target.oid operator(pg_catalog.=) confrelid
  join pg_catalog.pg_namespace as target_in on target_in.oid operator(pg_catalog.=) target.relnamespace
  where conrelid operator(pg_catalog.=) class.oid and contype operator(pg_catalog.=) 'f' and conparentid operator(pg_catalog.=) 0)`;

const schema = `
  with described as materialized (${columns})
  select pg_catalog.json_build_object(
    'tables', (
      select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', nspname, 'name', relname, 'kind', ${kind}, 'comment', ${withinTotal('comment')},
        'row_security', relrowsecurity, 'columns', coalesce(list, '[]'),
        'primary_key', coalesce((
          select ${keyColumns} from pg_catalog.pg_index
          where indrelid operator(pg_catalog.=) class.oid and indisprimary), '[]'),
        'uniques', (
          select coalesce(pg_catalog.json_agg(${keyColumns} order by indexrelid), '[]') from pg_catalog.pg_index
          where indrelid operator(pg_catalog.=) class.oid and indisunique and indisvalid and not indisprimary
            and indpred is null and indexprs is null),
        'references', ${references}
      ) order by ${byTable}), '[]')
      from (
        select *, ${totalOf('comment', byTable)}
        from (
          select class.oid, nspname, relname, relkind, relrowsecurity, ${tableComment} as comment
          from ${from} where ${shown}
        ) as entries
      ) as class
      left join described on attrelid operator(pg_catalog.=) class.oid),
    'enums', (
      select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('schema', nspname, 'name', typname, 'values', (
        select pg_catalog.json_agg(enumlabel order by enumsortorder)
        from pg_catalog.pg_enum where enumtypid operator(pg_catalog.=) type.oid
      )) order by nspname, typname), '[]')
      from pg_catalog.pg_type as type
      join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) typnamespace
      where typtype operator(pg_catalog.=) 'e' and ${ownSchemas}),
    'functions', (
      select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', nspname, 'name', proname,
        'kind', ${word('prokind', { f: 'function', p: 'procedure', a: 'aggregate', w: 'window' })},
        'arguments', ${withinTotal('arguments')}, 'returns', ${withinTotal('returns')}, 'language', lanname,
        'volatility', ${word('provolatile', { i: 'immutable', s: 'stable', v: 'volatile' })},
        'comment', ${withinTotal('comment')}
      ) order by place), '[]')
      from (
        select *, ${['arguments', 'returns', 'comment'].map((name) => totalOf(name, 'place')).join(', ')}
        from (
          select nspname, proname, prokind, lanname, provolatile,
            ${short('pg_catalog.pg_get_function_arguments(proc.oid)')} as arguments,
            ${short('pg_catalog.pg_get_function_result(proc.oid)')} as returns,
            ${short("pg_catalog.obj_description(proc.oid, 'pg_proc')")} as comment,
            pg_catalog.row_number() over (
              order by nspname, proname, pg_catalog.pg_get_function_identity_arguments(proc.oid)) as place
          from pg_catalog.pg_proc as proc
          join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) pronamespace
          join pg_catalog.pg_language as language on language.oid operator(pg_catalog.=) prolang
          where ${ownSchemas} and pg_catalog.has_function_privilege(proc.oid, 'execute')
            -- Without functions that belong to an extension.
            and not exists (
              select from pg_catalog.pg_depend
              where classid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
                and objid operator(pg_catalog.=) proc.oid and deptype operator(pg_catalog.=) 'e')
        ) as entries
      ) as counted))`;
