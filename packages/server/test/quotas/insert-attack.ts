// Runs random inserts into random tables, and compares what each adds to the files of its table with its bound.
import { loadModule, parseSync } from 'libpg-query';
import pg from 'pg';
import { expect } from 'vitest';
import { findBoundedInsert } from '../../src/query/statement/bounded-insert.ts';
import { slackOf } from '../../src/query/statement/growth-check.ts';
import {
  boundOf,
  bytesOfParams,
  insertFacts,
  mostOf,
  readFacts,
} from '../../src/query/statement/insert-growth.ts';
import type { Node } from '../../src/query/statement/references.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { address } from '../support/helpers.ts';
import { type Random, seed } from '../support/random.ts';
import { preparation, randomInsert, randomTable } from './insert-cases.ts';

/** Without maps: the budget sets space aside for them. */
const sizeText = `
  select (select pg_relation_size(oid) + coalesce(pg_relation_size(reltoastrelid), 0) from pg_class where oid = $1)
    + (select coalesce(sum(pg_relation_size(indexrelid)), 0) from pg_index
       where indrelid in ($1, (select reltoastrelid from pg_class where oid = $1))) as bytes`;

type Attacked = { tables: number; trusted: number; inserts: number; failed: number };

/** Until `count` inserts were compared, `perTable` in each. Throws at the first that adds more than its bound. */
export async function attackBounds(
  projectId: string,
  random: Random,
  { count, perTable }: { count: number; perTable: number },
): Promise<Attacked> {
  await loadModule();
  const { host, port, user, password } = address();
  const client = new pg.Client({ host, port, user, password, database: databaseOf(projectId) });
  await client.connect();
  const attacked = { tables: 0, trusted: 0, inserts: 0, failed: 0 };
  try {
    await client.query(
      'set search_path = public; set synchronous_commit = off; set client_min_messages = error',
    );
    for (const text of preparation) await client.query(text);
    while (attacked.inserts < count) await attackTable(client, random, attacked, perTable);
  } finally {
    await client.end();
  }
  return attacked;
}

async function attackTable(
  client: pg.Client,
  random: Random,
  attacked: Attacked,
  perTable: number,
): Promise<void> {
  const table = randomTable(random);
  await client.query(['drop table if exists t', ...table.statements].join(';'));
  attacked.tables++;
  const { rows } = await client.query({ name: 'facts', text: insertFacts, values: ['"t"'] });
  const facts = readFacts(rows[0]?.json_build_object ?? null);
  if (!facts) return;
  attacked.trusted++;
  const oid = (await client.query("select 'public.t'::regclass::oid as oid")).rows[0].oid;
  const measure = async () =>
    Number((await client.query({ name: 'size', text: sizeText, values: [oid] })).rows[0].bytes);
  const before = await measure();
  let size = before;
  let bounds = 0;
  for (let n = 0; n < perTable; n++) {
    const { text, params } = randomInsert(random, table);
    const insert = findBoundedInsert(parsed(text));
    if (!insert) throw new Error(`not bounded: ${text.slice(0, 500)}`);
    const isDone = await client.query(text, params).then(
      () => true,
      () => false,
    );
    attacked.inserts++;
    if (!isDone) attacked.failed++;
    const now = await measure();
    const bound = boundOf(facts, insert, bytesOfParams(params));
    const slack = slackOf(facts.narrowIndexes + facts.wideIndexes);
    const told = { seed, table: table.statements, text: text.slice(0, 2000), params, facts };
    expect(now - size, JSON.stringify(told)).toBeLessThanOrEqual(mostOf(facts, insert, bound) + slack);
    bounds += bound;
    size = now;
  }
  // What the budget sets aside (quotas/budget.ts).
  const aside = size / 16 + 2 ** 19;
  expect(size - before, JSON.stringify({ seed, table })).toBeLessThanOrEqual(bounds + aside);
}

function parsed(text: string): Node {
  const [first] = (parseSync(text) as { stmts: { stmt: { InsertStmt: Node } }[] }).stmts;
  return first?.stmt.InsertStmt ?? {};
}
