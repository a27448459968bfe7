// Completion in the SQL shell: keywords, and the project's tables and columns.
import type { BatchResponse, RunBatch } from '@rowhouse/api';
import { codeOf } from '@rowhouse/api/statements';
import { type ApiOptions, callApi } from './api.ts';

export type Names = { table: string; columns: string[] }[];

const keywords =
  'select from where insert into values update set delete returning join left right inner outer on using group order by having limit offset distinct as and or not null is in exists between like ilike case when then else end union all with create table view index function alter add drop column constraint primary key references unique check default policy enable row level security grant revoke to truncate explain analyze';

/** `[completions, the part of the line that they replace]`, as readline wants it. `text`: the whole statement so far. */
export function completeSql(names: Names, text: string, line: string): [string[], string] {
  const part = /[\w".]*$/.exec(line)?.[0] ?? '';
  const code = codeOf(text);
  const wantsTable = /\b(from|join|into|update|table)\s+[\w".]*$/i.test(code);
  const tables = names.map(({ table }) => table);
  const mentioned = names.filter(({ table }) =>
    new RegExp(`(^|[^\\w])${literally(table)}([^\\w]|$)`).test(text),
  );
  const columns = [...new Set((mentioned.length > 0 ? mentioned : names).flatMap((one) => one.columns))];
  const candidates = wantsTable ? tables : [...columns, ...tables, ...keywords.split(' ')];
  const wanted = part.toLowerCase();
  return [candidates.filter((name) => name.toLowerCase().startsWith(wanted)), part];
}

/** No names if the key may not read the catalog: the shell works without completion too. */
export async function readNames(slug: string, options: ApiOptions): Promise<Names> {
  const body: RunBatch = { statements: [{ query: catalog }], read_only: true };
  try {
    const path = ['projects', slug, 'batch'];
    const { results } = await callApi<BatchResponse>(options, 'POST', path, { body });
    return (results[0]?.rows ?? []) as Names;
  } catch {
    return [];
  }
}

const catalog = `select case when n.nspname = 'public' then pg_catalog.quote_ident(c.relname)
    else pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) end as table,
  pg_catalog.json_agg(pg_catalog.quote_ident(a.attname) order by a.attnum) as columns
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
group by 1 limit 2000`;

const literally = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
