// The query of `rowhouse types` against a project's catalog, and the type of its result. It is a single statement, so that
// all parts come from one snapshot. search_path is set to pg_catalog first, so that no object of the project can shadow
// PostgreSQL's own.

export type Catalog = {
  /** Schemas that can be chosen. */
  schemas: { name: string; isChosen: boolean; comment: string | null }[];
  relations: Relation[];
  functions: RoutineRow[];
  /** Every type that the relations, functions and other types use. */
  types: TypeRow[];
};

export type Relation = {
  oid: number;
  schema: string;
  name: string;
  isView: boolean;
  /** By privileges, and for a view by whether it is updatable. */
  takesInsert: boolean;
  takesUpdate: boolean;
  comment: string | null;
  columns: ColumnRow[];
  embeds: EmbedRow[];
};

/** Another relation whose rows can be embedded, by a foreign key of this one, of the other, or of a table between them. */
export type EmbedRow = {
  target: number;
  isMany: boolean;
  isNullable: boolean;
  /** The only column of a foreign key of this relation: it names the embedded row too. */
  column: string | null;
};

export type ColumnRow = {
  name: string;
  type: number;
  /** As declared. PostgreSQL does not enforce it. */
  dimensions: number;
  isRequired: boolean;
  /** NOT NULL NOT VALID: rows from before the constraint may hold nulls. */
  isUnproven: boolean;
  hasDefault: boolean;
  takesSelect: boolean;
  takesInsert: boolean;
  takesUpdate: boolean;
  comment: string | null;
};

export type RoutineRow = {
  schema: string;
  name: string;
  /** Distinguishes overloads. */
  signature: string;
  isStrict: boolean;
  returnsSet: boolean;
  returns: number;
  defaults: number;
  comment: string | null;
  /** Modes as in pg_proc: i, o, b (inout), v (variadic), t (a column of RETURNS TABLE). */
  parameters: { name: string; type: number; mode: string }[];
};

export type TypeRow = {
  oid: number;
  schema: string;
  name: string;
  /** As in pg_type: b, c, d, e, p, r, m. */
  kind: string;
  /** 0 if it is not an array. */
  element: number;
  base: number;
  relation: number;
  dimensions: number;
  isRequired: boolean;
  hasDefault: boolean;
  /** A composite type or an enum of a chosen schema. It is written even if nothing uses it. */
  isOwn: boolean;
  comment: string | null;
  labels: string[] | null;
  fields: { name: string; type: number; dimensions: number }[] | null;
};

export const pinSearchPath = "select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)";

/** Objects of an extension are left out. */
const ofExtension = (catalog: string, oid: string) =>
  `exists (select from pg_depend where classid = '${catalog}'::regclass and objid = ${oid} and deptype = 'e')`;

/** Bits of pg_relation_is_updatable. */
const [updates, inserts, changes] = [4, 8, 4 + 16];

/** pg_column_is_updatable is false for every column of a view that accepts only one kind of change by a trigger or rule. */
const columnTakes = `(relkind <> 'v' or accepts & ${changes} <> ${changes} or pg_column_is_updatable(relation.oid, attnum, true))
  and attgenerated = '' and attidentity <> 'a'`;

const columns = `(
  select coalesce(json_agg(json_build_object(
    'name', attname, 'type', atttypid::int8, 'dimensions', attndims, 'isRequired', attnotnull,
    'isUnproven', attnotnull and exists (
      select from pg_constraint where conrelid = attrelid and contype = 'n' and conkey = array[attnum] and not convalidated),
    'hasDefault', atthasdef or attidentity <> '',
    'takesSelect', has_column_privilege(relation.oid, attnum, 'select'),
    'takesInsert', ${columnTakes} and has_column_privilege(relation.oid, attnum, 'insert'),
    'takesUpdate', ${columnTakes} and has_column_privilege(relation.oid, attnum, 'update'),
    'comment', col_description(relation.oid, attnum))), '[]')
  from pg_attribute where attrelid = relation.oid and attnum > 0 and not attisdropped)`;

/** Whether a unique index over all rows has such columns. */
const uniqueOver = (relation: string, comparison: string) =>
  `exists (select from pg_index where indrelid = ${relation} and indisunique and indisvalid and indpred is null
     and indexprs is null and indkey::int2[] ${comparison})`;

/** $1: names of the schemas, or null for all of the project's own, without auth. */
export const readCatalog = `
with recursive
available as (
  select oid, nspname as name,
    case when $1::text[] is null then nspname <> 'auth' and not ${ofExtension('pg_namespace', 'oid')}
         else nspname = any ($1::text[]) end as is_chosen
  from pg_namespace
  where nspname <> all ('{rowhouse,rowhouse_migrations,information_schema}') and nspname !~ '^pg_' and has_schema_privilege(oid, 'usage')
),
chosen as (select oid, name from available where is_chosen),
relation as (
  select class.oid, chosen.name as schema, relname, relkind, pg_relation_is_updatable(class.oid, true) as accepts
  from pg_class as class join chosen on chosen.oid = relnamespace
  -- A partition is reached through its table.
  where relkind in ('r', 'p', 'f', 'v', 'm') and not relispartition
    and has_any_column_privilege(class.oid, 'select, insert, update') and not ${ofExtension('pg_class', 'class.oid')}
),
routine as (
  select proc.*, chosen.name as schema, coalesce(proallargtypes, proargtypes::oid[]) as every_type
  from pg_proc as proc join chosen on chosen.oid = pronamespace
  where prokind = 'f' and prorettype <> all ('{trigger,event_trigger,internal}'::regtype[])
    and 'internal'::regtype <> all (proargtypes::oid[])
    and has_function_privilege(proc.oid, 'execute') and not ${ofExtension('pg_proc', 'proc.oid')}
),
-- As the service embeds: see the foreign keys of its catalog.
embed as (
  select conrelid as holder, confrelid as target, false as is_many,
    exists (select from pg_attribute where attrelid = conrelid and attnum = any (conkey) and not attnotnull) as is_nullable,
    case when cardinality(conkey) = 1 then (select attname from pg_attribute where (attrelid, attnum) = (conrelid, conkey[1])) end as key_column
  from pg_constraint where contype = 'f'
  union all
  select confrelid, conrelid, not ${uniqueOver('conrelid', '<@ conkey')}, true, null from pg_constraint where contype = 'f'
  union all
  select near.confrelid, far.confrelid, true, false, null
  from pg_constraint as near join pg_constraint as far on far.conrelid = near.conrelid and far.oid <> near.oid
  where near.contype = 'f' and far.contype = 'f' and ${uniqueOver('near.conrelid', '@> (near.conkey || far.conkey)')}
),
own as (
  select type.oid from pg_type as type join chosen on chosen.oid = typnamespace
  left join pg_class as class on class.oid = typrelid
  where (typtype = 'e' or class.relkind = 'c') and not ${ofExtension('pg_type', 'type.oid')}
),
needed (oid) as (
  select oid from own
  union
  select atttypid from pg_attribute join relation on attrelid = relation.oid where attnum > 0 and not attisdropped
  union
  select unnest(every_type || prorettype) from routine
  union
  select part.oid
  from needed
  join pg_type as type on type.oid = needed.oid
  cross join lateral (
    select typelem where typsubscript = 'array_subscript_handler'::regproc
    union all
    select typbasetype where typtype = 'd'
    union all
    select atttypid from pg_attribute where attrelid = typrelid and attnum > 0 and not attisdropped
  ) as part (oid)
  where part.oid <> 0
)
select
  (select coalesce(json_agg(json_build_object('name', name, 'isChosen', is_chosen,
     -- PostgreSQL's default comment on public adds nothing.
     'comment', nullif(obj_description(oid, 'pg_namespace'), 'standard public schema'))), '[]') from available) as schemas,
  (select coalesce(json_agg(json_build_object(
     'oid', oid::int8, 'schema', schema, 'name', relname, 'isView', relkind in ('v', 'm'),
     'takesInsert', accepts & ${inserts} <> 0 and has_any_column_privilege(oid, 'insert'),
     'takesUpdate', accepts & ${updates} <> 0 and has_any_column_privilege(oid, 'update'),
     'comment', obj_description(oid, 'pg_class'), 'columns', ${columns},
     'embeds', (
       select coalesce(json_agg(json_build_object('target', target::int8, 'isMany', is_many, 'isNullable', is_nullable, 'column', key_column)), '[]')
       from embed join relation as other on other.oid = target where holder = relation.oid))), '[]') from relation) as relations,
  (select coalesce(json_agg(json_build_object(
     'schema', schema, 'name', proname, 'signature', pg_get_function_identity_arguments(oid),
     'isStrict', proisstrict, 'returnsSet', proretset, 'returns', prorettype::int8, 'defaults', pronargdefaults,
     'comment', obj_description(oid, 'pg_proc'),
     'parameters', (
       select coalesce(json_agg(json_build_object(
         'name', coalesce(proargnames[place], ''), 'type', type::int8, 'mode', coalesce(proargmodes[place], 'i')) order by place), '[]')
       from unnest(every_type) with ordinality as parameter (type, place)))), '[]') from routine) as functions,
  (select coalesce(json_agg(json_build_object(
     'oid', type.oid::int8, 'schema', nspname, 'name', typname, 'kind', typtype,
     'element', case when typsubscript = 'array_subscript_handler'::regproc then typelem::int8 else 0 end,
     'base', typbasetype::int8, 'relation', typrelid::int8, 'dimensions', typndims, 'isRequired', typnotnull,
     'hasDefault', typdefault is not null, 'isOwn', exists (select from own where own.oid = type.oid),
     'comment', coalesce(obj_description(type.oid, 'pg_type'), obj_description(typrelid, 'pg_class')),
     'labels', (select json_agg(enumlabel order by enumsortorder) from pg_enum where enumtypid = type.oid),
     'fields', case when typtype = 'c' then (
       select coalesce(json_agg(json_build_object('name', attname, 'type', atttypid::int8, 'dimensions', attndims)), '[]')
       from pg_attribute where attrelid = typrelid and attnum > 0 and not attisdropped) end)), '[]')
   from needed join pg_type as type on type.oid = needed.oid
   join pg_namespace as namespace on namespace.oid = typnamespace) as types`;
