// What GET /schema adds on request: indexes, constraints, policies, triggers, views, functions and extensions, with their
// definitions as PostgreSQL writes them. Read from the catalog, one question for each part, and bounded: a project can have
// any number of objects with texts of any length.
import type { DefinitionPart, Definitions } from '@rowhouse/api';
import type { Ask } from './catalog.ts';
import { from, ownSchemas, shown, word } from './describe.ts';
import { totalOf, withinTotal } from './text-totals.ts';

const maxEntries = 5_000;

export async function describeParts(ask: Ask, parts: readonly DefinitionPart[]): Promise<Definitions> {
  const found: Record<string, unknown> = {};
  const truncated: DefinitionPart[] = [];
  for (const name of parts) {
    const entries = JSON.parse((await ask(queries[name], [])) ?? '[]') as unknown[];
    if (entries.length > maxEntries) truncated.push(name);
    found[name] = entries.slice(0, maxEntries);
  }
  return { ...found, truncated } as Definitions;
}

type Part = Readonly<{
  /** Keys of the wire, and their SQL. */
  fields: Readonly<Record<string, string>>;
  /** Those that can be long. */
  texts: Readonly<Record<string, string>>;
  from: string;
  where: string;
  order: string;
}>;

/** Texts are computed for the shown entries only, and each is left out from the entry on that exceeds its limit. */
function listing({ fields, texts, from: source, where, order }: Part): string {
  const select = [...Object.entries(fields), ...Object.entries(texts)]
    .map(([name, sql]) => `${sql} as "${name}"`)
    .join(', ');
  const sizes = Object.keys(texts).map((name) => totalOf(name, 'place'));
  const members = [
    ...Object.keys(fields).map((name) => `'${name}', "${name}"`),
    ...Object.keys(texts).map((name) => `'${name}', ${withinTotal(name)}`),
  ];
  return `
    select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(${members.join(', ')}) order by place), '[]')
    from (
      select ${['*', ...sizes].join(', ')}
      from (
        select ${select}, pg_catalog.row_number() over (order by ${order}) as place
        from ${source} where ${where} order by ${order} limit ${maxEntries + 1}
      ) as entries
    ) as counted`;
}

const ofTable = { schema: 'nspname', table: 'relname' };
const byTable = 'nspname, relname';

const queries: Record<DefinitionPart, string> = {
  indexes: listing({
    fields: {
      ...ofTable,
      name: '(select relname from pg_catalog.pg_class where oid operator(pg_catalog.=) indexrelid)',
      unique: 'indisunique',
      primary: 'indisprimary',
      valid: 'indisvalid',
      size_bytes: 'pg_catalog.pg_relation_size(indexrelid)',
    },
    texts: { definition: 'pg_catalog.pg_get_indexdef(indexrelid)' },
    from: `${from} join pg_catalog.pg_index on indrelid operator(pg_catalog.=) class.oid`,
    where: shown,
    order: `${byTable}, indexrelid`,
  }),
  constraints: listing({
    fields: {
      ...ofTable,
      name: 'conname',
      kind: word('contype', {
        c: 'check',
        f: 'foreign_key',
        n: 'not_null',
        p: 'primary_key',
        u: 'unique',
        x: 'exclusion',
        t: 'trigger',
      }),
      valid: 'convalidated',
    },
    texts: { definition: 'pg_catalog.pg_get_constraintdef(key.oid)' },
    from: `${from} join pg_catalog.pg_constraint as key on conrelid operator(pg_catalog.=) class.oid`,
    where: shown,
    order: `${byTable}, conname`,
  }),
  policies: listing({
    fields: {
      ...ofTable,
      name: 'polname',
      command: word('polcmd', {
        r: 'select',
        a: 'insert',
        w: 'update',
        d: 'delete',
        '*': 'all',
      }),
      permissive: 'polpermissive',
      roles: `(
        select pg_catalog.json_agg(coalesce(rolname, 'public') order by rolname)
        from pg_catalog.unnest(polroles) as granted (oid)
        left join pg_catalog.pg_roles as role on role.oid operator(pg_catalog.=) granted.oid)`,
    },
    texts: {
      using: 'pg_catalog.pg_get_expr(polqual, polrelid)',
      check: 'pg_catalog.pg_get_expr(polwithcheck, polrelid)',
    },
    from: `${from} join pg_catalog.pg_policy on polrelid operator(pg_catalog.=) class.oid`,
    where: shown,
    order: `${byTable}, polname`,
  }),
  triggers: listing({
    fields: {
      ...ofTable,
      name: 'tgname',
      enabled: "tgenabled operator(pg_catalog.<>) 'D'",
    },
    texts: { definition: 'pg_catalog.pg_get_triggerdef(trigger.oid)' },
    from: `${from} join pg_catalog.pg_trigger as trigger on tgrelid operator(pg_catalog.=) class.oid`,
    where: `${shown} and not tgisinternal`,
    order: `${byTable}, tgname`,
  }),
  views: listing({
    fields: {
      schema: 'nspname',
      name: 'relname',
      kind: word('relkind', { v: 'view', m: 'materialized_view' }),
      security_invoker: `coalesce((
        select option_value::pg_catalog.bool from pg_catalog.pg_options_to_table(reloptions)
        where option_name operator(pg_catalog.=) 'security_invoker'), false)`,
    },
    texts: { definition: 'pg_catalog.pg_get_viewdef(class.oid)' },
    from,
    where: `${shown} and relkind operator(pg_catalog.=) any ('{v,m}')`,
    order: byTable,
  }),
  functions: listing({
    fields: {
      schema: 'nspname',
      name: 'proname',
      kind: word('prokind', { f: 'function', p: 'procedure', a: 'aggregate', w: 'window' }),
      language: 'lanname',
      volatility: word('provolatile', { i: 'immutable', s: 'stable', v: 'volatile' }),
      security_definer: 'prosecdef',
    },
    texts: {
      arguments: 'pg_catalog.pg_get_function_arguments(proc.oid)',
      identity_arguments: 'pg_catalog.pg_get_function_identity_arguments(proc.oid)',
      returns: 'pg_catalog.pg_get_function_result(proc.oid)',
      comment: "pg_catalog.obj_description(proc.oid, 'pg_proc')",
      // PostgreSQL has no definition of an aggregate.
      definition: `case when prokind operator(pg_catalog.<>) 'a' then pg_catalog.pg_get_functiondef(proc.oid) end`,
    },
    from: `pg_catalog.pg_proc as proc
      join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) pronamespace
      join pg_catalog.pg_language as language on language.oid operator(pg_catalog.=) prolang`,
    where: `${ownSchemas} and pg_catalog.has_function_privilege(proc.oid, 'execute')
      and not exists (
        select from pg_catalog.pg_depend
        where classid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
          and objid operator(pg_catalog.=) proc.oid and deptype operator(pg_catalog.=) 'e')`,
    order: 'nspname, proname, proc.oid',
  }),
  extensions: listing({
    fields: {
      name: 'available.name',
      schema: 'nspname',
      version: 'installed_version',
      default_version: 'default_version',
    },
    texts: { comment: 'available.comment' },
    from: `pg_catalog.pg_available_extensions as available
      left join pg_catalog.pg_extension as extension on extname operator(pg_catalog.=) available.name
      left join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) extnamespace`,
    where: 'true',
    order: 'available.name',
  }),
};
