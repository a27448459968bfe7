// MCP over stdio: the official client starts `rowhouse mcp`, which uses a live service.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { useTestService } from '../../server/test/helpers.ts';

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
