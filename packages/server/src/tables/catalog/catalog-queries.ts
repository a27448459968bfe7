// The queries of catalog.ts. All names and operators are schema-qualified: the project controls search_path and the
// objects in it, and none of them may be picked up instead of the catalog's.
import { neededTypes } from '../../query/exchange/type-lookup.ts';
import { codeInChosen } from '../../query/statement/code-behind.ts';

/** Excludes the schemas of PostgreSQL and of the service, whose tables have no endpoint. */
export const openSchemas = `nspname operator(pg_catalog.<>) all ('{pg_catalog,information_schema,pg_toast,rowhouse}'::pg_catalog.name[])
  and nspname operator(pg_catalog.!~) '^pg_(temp|toast_temp)_'`;

/** How a call of nextval looks in a stored expression (pg_node_tree). */
const callsNextval = ':funcid 1574 ';

const tableKinds = `relkind operator(pg_catalog.=) any ('{r,p,v,m,f}')`;

/** For a table: row security is enabled. For a view: it reads with the privileges of the caller (security_invoker). */
const isRowSecure = `case when open.relkind operator(pg_catalog.=) any ('{r,p}') then open.relrowsecurity
    when open.relkind operator(pg_catalog.=) 'v' then coalesce((
      select option_value::pg_catalog.bool from pg_catalog.pg_options_to_table(open.reloptions)
      where option_name operator(pg_catalog.=) 'security_invoker'), false)
    else false end`;

export const byName = describe(`
  select class.oid from pg_catalog.pg_class as class
  join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) class.relnamespace
  where class.relname operator(pg_catalog.=) any ($2::pg_catalog.name[]) and ${tableKinds} and ${openSchemas}
    and (nspname operator(pg_catalog.=) 'public' and relname operator(pg_catalog.=) $1::pg_catalog.text
      or pg_catalog.concat(nspname, '.', relname) operator(pg_catalog.=) $1::pg_catalog.text)
  order by nspname operator(pg_catalog.=) 'public' and relname operator(pg_catalog.=) $1::pg_catalog.text desc,
           pg_catalog.length(nspname::pg_catalog.text)
  limit 1`);

export const byOid = describe(`
  select class.oid from pg_catalog.pg_class as class
  where class.oid operator(pg_catalog.=) any ($1::pg_catalog.oid[]) and ${tableKinds}`);

export const allNames = `
  select pg_catalog.json_agg(found) from (
    select nspname as schema, relname as name
    from pg_catalog.pg_class
    join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) relnamespace
    where ${tableKinds} and ${openSchemas}
      and pg_catalog.has_schema_privilege(namespace.oid, 'usage')
      and pg_catalog.has_any_column_privilege(pg_class.oid, 'select, insert, update')
    order by nspname operator(pg_catalog.<>) 'public', 1, 2 limit 5000
  ) as found`;

/** The names of a relation's columns by their numbers, in the order of the numbers. */
function columnNames(relation: string, numbers: string): string {
  return `(
    select pg_catalog.json_agg(attname order by place)
    from pg_catalog.unnest(${numbers}) with ordinality as numbers (number, place)
    join pg_catalog.pg_attribute on attrelid operator(pg_catalog.=) ${relation} and attnum operator(pg_catalog.=) number)`;
}

function tableName(oid: string): string {
  return `(
    select pg_catalog.json_build_object('oid', named.oid::pg_catalog.int8, 'schema', named_in.nspname, 'name', named.relname,
      'version', rowhouse.version_of(named.oid))
    from pg_catalog.pg_class as named
    join pg_catalog.pg_namespace as named_in on named_in.oid operator(pg_catalog.=) named.relnamespace
    where named.oid operator(pg_catalog.=) ${oid})`;
}

/** Whether the table has a unique index over all rows whose columns satisfy `comparison`. */
function uniqueOver(relation: string, comparison: string): string {
  return `exists (
    select from pg_catalog.pg_index
    where indrelid operator(pg_catalog.=) ${relation} and indisunique and indisvalid and indpred is null and indexprs is null
      and (indkey::pg_catalog.int2[])[0:indnkeyatts operator(pg_catalog.-) 1] ${comparison})`;
}

/** Returns one value: a JSON array of the tables whose oids `which` selects. */
function describe(which: string): string {
  return `
  with recursive chosen (oid) as (${which}),
  attribute as (
    select attrelid, attnum, attname, atttypid, atttypmod, attnotnull, atthasdef, attidentity, attgenerated
    from pg_catalog.pg_attribute
    where attrelid operator(pg_catalog.=) any (select oid from chosen) and attnum operator(pg_catalog.>) 0 and not attisdropped
  ),
  ${neededTypes('select atttypid from attribute where atttypid operator(pg_catalog.>=) 16384', 16384)},
  own_key as (
    select oid, conname, conrelid, conkey, confrelid, confkey
    from pg_catalog.pg_constraint as key
    where contype operator(pg_catalog.=) 'f'
      -- Without the copies that PostgreSQL makes for the partitions of the referenced table.
      and not exists (
        select from pg_catalog.pg_constraint as parent
        where parent.oid operator(pg_catalog.=) key.conparentid and parent.conrelid operator(pg_catalog.=) key.conrelid)
  ),
  pointing as (
    select own_key.*
    from own_key join pg_catalog.pg_constraint as key on key.oid operator(pg_catalog.=) own_key.oid
    where key.conparentid operator(pg_catalog.=) 0 and own_key.confrelid operator(pg_catalog.=) any (select oid from chosen)
  ),
  ${codeInChosen}
  select pg_catalog.json_agg(pg_catalog.json_build_object(
    'oid', class.oid::pg_catalog.int8, 'schema', nspname, 'name', relname, 'kind', relkind,
    'version', rowhouse.version_of(class.oid),
    'hasChildren', relhassubclass or relkind operator(pg_catalog.=) 'p',
    'updatable', pg_catalog.pg_relation_is_updatable(class.oid::pg_catalog.regclass, true),
    'grants', pg_catalog.json_build_object(
      'usage', pg_catalog.has_schema_privilege(class.relnamespace, 'usage'),
      'select', pg_catalog.has_any_column_privilege(class.oid, 'select'),
      'insert', pg_catalog.has_any_column_privilege(class.oid, 'insert'),
      'update', pg_catalog.has_any_column_privilege(class.oid, 'update'),
      'delete', pg_catalog.has_table_privilege(class.oid, 'delete')),
    'exposed', (
      select pg_catalog.json_build_object('schema', open_in.nspname, 'name', open.relname, 'kind', open.relkind)
      from rowhouse.reads(class.oid) as read (oid)
      join pg_catalog.pg_class as open on open.oid operator(pg_catalog.=) read.oid
      join pg_catalog.pg_namespace as open_in on open_in.oid operator(pg_catalog.=) open.relnamespace
      where open.${tableKinds} and not ${isRowSecure}
      order by open.oid operator(pg_catalog.=) class.oid desc, open.oid limit 1),
    'columns', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', attname, 'type', pg_catalog.format_type(atttypid, atttypmod), 'oid', atttypid::pg_catalog.int8,
        'notNull', attnotnull,
        'isReadable', pg_catalog.has_column_privilege(attrelid, attnum, 'select'), 'hasDefault', atthasdef, 'identity', attidentity, 'generated', attgenerated
      ) order by attnum)
      from attribute where attrelid operator(pg_catalog.=) class.oid),
    'types', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'oid', type.oid::pg_catalog.int8, 'kind', typtype, 'base', typbasetype::pg_catalog.int8,
        'element', case when typsubscript operator(pg_catalog.=) 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
                        then typelem::pg_catalog.int8 else 0 end,
        'fields', (
          select pg_catalog.json_agg(pg_catalog.json_build_object('name', field.attname, 'oid', field.atttypid::pg_catalog.int8)
                                     order by field.attnum)
          from pg_catalog.pg_attribute as field
          where field.attrelid operator(pg_catalog.=) typrelid and typrelid operator(pg_catalog.<>) 0
            and field.attnum operator(pg_catalog.>) 0 and not field.attisdropped),
        'relation', typrelid::pg_catalog.int8,
        'isTable', exists (
          select from pg_catalog.pg_class as rows_of
          where rows_of.oid operator(pg_catalog.=) typrelid and rows_of.relkind operator(pg_catalog.<>) 'c'),
        'version', case when typrelid operator(pg_catalog.<>) 0 then rowhouse.version_of(typrelid) end,
        'values', (
          select pg_catalog.json_agg(enumlabel order by enumsortorder)
          from pg_catalog.pg_enum where enumtypid operator(pg_catalog.=) type.oid),
        'operators', (
          select pg_catalog.json_agg(distinct pg_catalog.jsonb_build_array(oprname, operator_in.nspname))
          from pg_catalog.pg_operator
          join pg_catalog.pg_namespace as operator_in on operator_in.oid operator(pg_catalog.=) oprnamespace
          where oprleft operator(pg_catalog.=) type.oid)))
      from needed join pg_catalog.pg_type as type on type.oid operator(pg_catalog.=) needed.oid),
    'keys', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'isPrimary', indisprimary,
        'columns', ${columnNames('indrelid', '(indkey::pg_catalog.int2[])[0:indnkeyatts operator(pg_catalog.-) 1]')}
      ) order by indisprimary desc, indnkeyatts, indexrelid)
      from pg_catalog.pg_index
      where indrelid operator(pg_catalog.=) class.oid and indisunique and indisvalid and indpred is null and indexprs is null),
    'from', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', conname, 'columns', ${columnNames('conrelid', 'conkey')},
        'target', ${tableName('confrelid')}, 'targetColumns', ${columnNames('confrelid', 'confkey')}
      ) order by conname)
      from own_key where conrelid operator(pg_catalog.=) class.oid),
    'to', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', conname, 'columns', ${columnNames('confrelid', 'confkey')},
        'target', ${tableName('conrelid')}, 'targetColumns', ${columnNames('conrelid', 'conkey')},
        'isUnique', ${uniqueOver('conrelid', 'operator(pg_catalog.<@) conkey')}
      ) order by conname)
      from pointing where confrelid operator(pg_catalog.=) class.oid),
    'through', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', near.conname, 'columns', ${columnNames('near.confrelid', 'near.confkey')},
        'table', ${tableName('near.conrelid')}, 'nearColumns', ${columnNames('near.conrelid', 'near.conkey')},
        'farName', far.conname, 'farColumns', ${columnNames('far.conrelid', 'far.conkey')},
        'target', ${tableName('far.confrelid')}, 'targetColumns', ${columnNames('far.confrelid', 'far.confkey')}
      ) order by near.conname, far.conname)
      from pointing as near
      join own_key as far on far.conrelid operator(pg_catalog.=) near.conrelid and far.oid operator(pg_catalog.<>) near.oid
      where near.confrelid operator(pg_catalog.=) class.oid
        -- A join table is one whose unique key covers both foreign keys.
        and ${uniqueOver('near.conrelid', 'operator(pg_catalog.@>) (near.conkey operator(pg_catalog.||) far.conkey)')}),
    'codeInReads', (
      select pg_catalog.min(because) from code
      where relation operator(pg_catalog.=) class.oid and purpose operator(pg_catalog.=) 'read'),
    'codeInChanges', (select pg_catalog.min(because) from code where relation operator(pg_catalog.=) class.oid),
    'usesSequences', exists (
      select from (
        select adbin::pg_catalog.text from pg_catalog.pg_attrdef where adrelid operator(pg_catalog.=) class.oid
        union all
        select conbin::pg_catalog.text from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) class.oid
      ) as stored (expression)
      where expression operator(pg_catalog.~) '${callsNextval}')))
  from chosen
  join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) chosen.oid
  join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) class.relnamespace`;
}
