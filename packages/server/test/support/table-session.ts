// A session of a project as the service opens one, for tests of compiled statements: rows come as PostgreSQL's text.
import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { loginOf } from '../../src/servers/databases/login.ts';
import type { Server } from '../../src/servers/server.ts';
import { type Ask, findTables, getTable } from '../../src/tables/catalog/catalog.ts';
import { readPageRequest } from '../../src/tables/request/request.ts';
import { type CompiledPage, compilePage, nextCursor } from '../../src/tables/sql/compile.ts';
import { relate } from '../../src/tables/sql/embeds.ts';
import type { TestService } from './helpers.ts';

export type Text = string | null;
export type TableSession = {
  client: pg.Client;
  ask: Ask;
  run(text: string, params?: readonly Text[]): Promise<Text[][]>;
  compile(table: string, query?: string): Promise<CompiledPage>;
  page(table: string, query?: string): Promise<Page>;
  end(): Promise<void>;
};
export type Page = { columns: readonly string[]; rows: Text[][]; hasMore: boolean; cursor: string | null };

type Fixture = {
  project: { id: string; slug: string; key: string };
  session: TableSession;
  other: TableSession;
};

/** A project with two sessions, for the tests of a file. */
export function useTableSessions(rowhouse: TestService): Fixture {
  const fixture = { project: {}, session: {}, other: {} } as Fixture;
  beforeAll(async () => {
    const { project, session, other } = fixture;
    Object.assign(project, await rowhouse.project('Tables'));
    for (const each of [session, other])
      Object.assign(each, await openTableSession(rowhouse.service.deps.server, project.id));
  });
  afterAll(async () => {
    await fixture.session.end();
    await fixture.other.end();
  });
  return fixture;
}

export async function openTableSession(server: Server, projectId: string): Promise<TableSession> {
  const login = loginOf(server, { id: projectId, passwordVersion: 1 });
  const { host, port, user, password, database } = login;
  const client = new pg.Client({
    host,
    port,
    user,
    password,
    database,
    ssl: login.tls,
    types: { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig,
    options: '-c search_path=public -c TimeZone=UTC -c IntervalStyle=iso_8601',
  });
  client.on('error', () => {});
  await client.connect();
  const names = new Map<string, string>();
  const run = async (text: string, params: readonly Text[] = []) => {
    const name = names.get(text) ?? `s${names.size}`;
    names.set(text, name);
    const result = await client.query({ name, text, values: [...params], rowMode: 'array' });
    return result.rows as Text[][];
  };
  const ask: Ask = async (text, params) => (await run(text, params))[0]?.[0] ?? null;
  const compile = async (table: string, query = '') => {
    const request = readPageRequest(query);
    const found = await getTable(ask, table);
    const relations = await relate((oids) => findTables(ask, oids), found, request.select);
    return compilePage(request, found, relations);
  };
  return {
    client,
    ask,
    run,
    compile,
    page: async (table, query) => {
      const compiled = await compile(table, query);
      const rows = await run(compiled.text, compiled.params);
      const shown = rows.slice(0, compiled.limit);
      const last = shown.at(-1);
      const values = compiled.cursor?.columns.map((index) => last?.[index] ?? null) ?? [];
      const hasMore = rows.length > compiled.limit;
      return {
        columns: compiled.columns,
        rows: shown.map((row) => row.slice(0, compiled.columns.length)),
        hasMore,
        cursor: hasMore ? nextCursor(compiled, values) : null,
      };
    },
    end: () => client.end(),
  };
}
