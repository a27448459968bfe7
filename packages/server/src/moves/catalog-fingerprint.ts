// What of a project's catalog a move copies before the pause. If it differs at the pause, a statement has changed tables,
// functions or privileges meanwhile, and the copy does not have the change.

import type { Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { publications } from '../servers/databases/publication.ts';

/** A statement of the project has changed what was copied already. It counts, and the move begins again. */
export class SchemaChanged extends Error {
  override readonly name = 'SchemaChanged';
}

/**
 * Columns that VACUUM, ANALYZE or TRUNCATE change are left out, and so are temporary tables, large objects (copied during the
 * pause), the publications of the move and what the service itself changes: schema rowhouse and event triggers, which only a
 * superuser can create. Reads catalogs only, with a search path without the project's schemas: none of its code runs.
 */
export async function fingerprint(inside: Queryable): Promise<string> {
  const [row] = await inside.query<{ print: string }>(sql.script(text));
  if (!row) throw new Error('PostgreSQL gave no fingerprint.');
  return row.print;
}

/** Whole rows. `of`: the column that names the table to which the row belongs. */
const catalogs: readonly { name: string; of?: string }[] = [
  ...[
    ...[
      'pg_operator',
      'pg_opclass',
      'pg_opfamily',
      'pg_cast',
      'pg_collation',
      'pg_conversion',
      'pg_language',
    ],
    ...['pg_extension', 'pg_default_acl', 'pg_statistic_ext'],
    ...['pg_foreign_data_wrapper', 'pg_foreign_server', 'pg_user_mapping'],
    ...['pg_ts_config', 'pg_ts_dict', 'pg_ts_parser', 'pg_ts_template', 'pg_enum', 'pg_amop', 'pg_amproc'],
    'pg_transform',
  ].map((name) => ({ name })),
  { name: 'pg_attrdef', of: 'adrelid' },
  { name: 'pg_trigger', of: 'tgrelid' },
  { name: 'pg_policy', of: 'polrelid' },
  { name: 'pg_rewrite', of: 'ev_class' },
  { name: 'pg_inherits', of: 'inhrelid' },
  { name: 'pg_sequence', of: 'seqrelid' },
  { name: 'pg_partitioned_table', of: 'partrelid' },
  { name: 'pg_foreign_table', of: 'ftrelid' },
];

const wholeRows = catalogs.map(({ name, of }) =>
  of
    ? `select '${name}' || md5(entry::text) from ${name} as entry where entry.${of} in (select oid from kept)`
    : `select '${name}' || md5(entry::text) from ${name} as entry where entry.oid >= 16384`,
);

const own = publications.map((name) => `'${name}'`).join(', ');

const text = `
with schemas as (
  select oid, nspname, nspowner, nspacl from pg_namespace
  where nspname !~ '^pg_(toast|temp|toast_temp)' and nspname not in ('pg_catalog', 'information_schema', 'rowhouse')
),
changed as (
  -- Tables to which the move has given REPLICA IDENTITY FULL, with what they had.
  select prrelid as oid, case when pubname like '%nothing' then 'n' else 'd' end as before
  from pg_publication_rel join pg_publication on pg_publication.oid = prpubid
  where pubname in (${own}) and pubname <> '${publications[0]}'
    and pubowner = (select oid from pg_roles where rolname = current_user)
),
kept as (
  select class.*, coalesce((select before from changed where oid = class.oid and relreplident = 'f'),
                           relreplident::text) as identity
  from pg_class as class
  where class.oid >= 16384 and relpersistence <> 't' and relnamespace in (select oid from schemas)
),
parts (part) as (
  select 'schema' || md5(schemas::text) from schemas
  union all
  select 'class' || md5(row(oid, relname, relnamespace, relowner, relam, relpersistence, relkind, relnatts, relchecks,
    relrowsecurity, relforcerowsecurity, identity, relispartition, relispopulated, relacl, reloptions, relpartbound)::text)
  from kept
  union all
  -- xmin: ALTER COLUMN … TYPE … USING can change every value, which is not replicated, and leave the type as it was.
  select 'attribute' || md5(row(xmin, attrelid, attname, atttypid, atttypmod, attnum, attnotnull, atthasdef, attidentity,
    attgenerated, attisdropped, attislocal, attcollation, attstorage, attcompression, attacl, attoptions, attfdwoptions)::text)
  from pg_attribute where attnum > 0 and attrelid in (select oid from kept)
  union all
  select 'index' || md5(row(indexrelid, indrelid, indisunique, indisprimary, indisreplident, indisvalid, indkey, indclass,
    indcollation, indoption, indexprs, indpred)::text) from pg_index where indrelid in (select oid from kept)
  union all
  select 'constraint' || md5(entry::text) from pg_constraint as entry where connamespace in (select oid from schemas)
  union all
  select 'type' || md5(entry::text) from pg_type as entry
  where entry.oid >= 16384 and typnamespace in (select oid from schemas)
  union all
  select 'function' || md5(entry::text) from pg_proc as entry where pronamespace in (select oid from schemas)
  union all
  select 'aggregate' || md5(entry::text) from pg_aggregate as entry where aggfnoid::oid >= 16384
  union all
  select 'comment' || md5(entry::text) from pg_description as entry
  where (objoid >= 16384 or objoid = 2200) and classoid <> 2613
  union all
  select 'publication' || md5(entry::text) from pg_publication as entry where pubname not in (${own})
  union all
  select 'published' || md5(entry::text) from pg_publication_rel as entry
  where prpubid not in (select oid from pg_publication where pubname in (${own}))
  union all
  select 'published' || md5(entry::text) from pg_publication_namespace as entry
  union all
  ${wholeRows.join('\n  union all\n  ')}
)
select coalesce(md5(string_agg(part, '' order by part)), '') as print from parts`;
