// MCP over stdio: the official client starts `rowhouse mcp`, which uses a live service.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { sql } from '../../server/src/postgres/sql.ts';
import { asAdmin, until, useTestService } from '../../server/test/support/helpers.ts';

const rowhouse = useTestService();
const command = path.join(fileURLToPath(new URL('..', import.meta.url)), 'bin', 'rowhouse.mjs');
let url = '';

beforeAll(async () => {
  url = await rowhouse.app.listen({ port: 0, host: '127.0.0.1' });
});

async function connect(env: Record<string, string>, args: string[] = []): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [command, 'mcp', ...args],
    env: { PATH: process.env.PATH ?? '', ...env },
    stderr: 'pipe',
  });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return client;
}

const use = async (client: Client, name: string, input: Record<string, unknown> = {}) => {
  const { content, isError } = (await client.callTool({ name, arguments: input })) as {
    content: { text: string }[];
    isError?: boolean;
  };
  return { isError: isError === true, text: content[0]?.text ?? '' };
};

it('offers the same tools as over HTTP, with the rights of the key', async () => {
  const shop = await rowhouse.project('My Shop');
  const client = await connect({ ROWHOUSE_URL: url, ROWHOUSE_API_KEY: shop.key });
  const names = (await client.listTools()).tools.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['query', 'run_sql', 'search_docs']));
  const made = {
    project: shop.slug,
    query: 'create table teas (id integer)',
    dry_run: false,
    max_affected: 0,
  };
  expect((await use(client, 'run_sql', made)).isError).toBe(false);
  expect((await use(client, 'list_tables', { project: shop.slug })).text).toContain('"name":"teas"');
  expect(await use(client, 'query', { project: shop.slug, query: 'drop table teas' })).toMatchObject({
    isError: true,
  });
  const refused = await use(client, 'create_project', { name: 'Another' });
  expect(refused).toMatchObject({ isError: true, text: expect.stringContaining('What to do:') });
  expect((await use(client, 'search_docs', { query: 'branches' })).text).toContain('docs/branches.md');
  const large = "select repeat('x', 10000000) as filler from generate_series(1, 500)";
  const cut = await use(client, 'query', { project: shop.slug, query: large, limit: 500 });
  expect(cut).toMatchObject({ isError: true, text: expect.stringContaining('fewer rows') });
});

it('keeps all digits, and stops the statement of a call that the agent cancels', async () => {
  const shop = await rowhouse.project('Big Shop');
  // Without the library, which would round the number.
  const child = spawn(process.execPath, [command, 'mcp'], {
    env: { PATH: process.env.PATH ?? '', ROWHOUSE_URL: url, ROWHOUSE_API_KEY: shop.key },
  });
  onTestFinished(() => void child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const send = (text: string) => child.stdin.write(`${text}\n`);
  const next = async () => String((await lines.next()).value);
  send(
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}',
  );
  expect(await next()).toContain('"id":0');
  send('{"jsonrpc":"2.0","method":"notifications/initialized"}');
  const call = (id: number, query: string, params = '[]') =>
    send(
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"query","arguments":{"project":"${shop.slug}","query":"${query}","params":${params}}}}`,
    );
  call(1, 'select $1::bigint as big', '[9007199254740993]');
  expect(await next()).toContain('\\"rows\\":[{\\"big\\":9007199254740993}]');
  const running = async () => {
    const [found] = await asAdmin((admin) =>
      admin.query<{ n: number }>(sql`
        select count(*)::int as n from pg_stat_activity
        where query like 'select pg_sleep(25)%' and state = 'active'`),
    );
    return found?.n ?? 0;
  };
  call(2, 'select pg_sleep(25)');
  await until('the statement runs', async () => (await running()) === 1);
  send('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}');
  await until('the statement is cancelled', async () => (await running()) === 0, 5_000);
  call(3, 'select 42 as answer');
  expect(await next()).toContain('"id":3');
});

it('leaves out the tools that write with --read-only', async () => {
  const client = await connect({ ROWHOUSE_URL: url, ROWHOUSE_API_KEY: rowhouse.accountKey }, ['--read-only']);
  const { tools } = await client.listTools();
  expect(tools.every(({ annotations }) => annotations?.readOnlyHint)).toBe(true);
});

it('says what to do if the service is not there, the key is wrong or missing', async () => {
  const nowhere = await connect({
    ROWHOUSE_URL: 'http://127.0.0.1:9',
    ROWHOUSE_API_KEY: rowhouse.accountKey,
  });
  expect(await use(nowhere, 'list_projects')).toMatchObject({
    isError: true,
    text: expect.stringMatching(/no_answer: http:\/\/127\.0\.0\.1:9 did not answer[\s\S]*Set ROWHOUSE_URL/),
  });
  const wrong = await connect({ ROWHOUSE_URL: url, ROWHOUSE_API_KEY: 'rh_acct_mistyped' });
  expect((await use(wrong, 'list_projects')).text).toContain('invalid_api_key');
  await expect(connect({ ROWHOUSE_URL: url })).rejects.toThrow();
});
