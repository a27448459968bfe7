// Every endpoint of the OpenAPI document gets the widest, deepest and longest input that it takes, in its body, its query
// string and its headers. No single request may keep the event loop busy for long: the neighbours' requests wait meanwhile.
import { beforeAll, describe, expect, it } from 'vitest';
import { type Route, readOpenApi } from '../support/open-api.ts';
import { newAccountKey, type Running } from '../support/process.ts';
import { launchWatched } from './watched-loop.ts';

/** Processor time of the event loop at a stretch. Usual are 2 to 7; one object of 99,000 keys took 98 to 183. */
const maxBusyMs = 70;
/** The best of so many: collecting garbage and compiling code happen now and then, an endpoint that blocks does always. */
const tries = 3;

type Schema = {
  properties?: Record<string, Schema>;
  items?: Schema;
  required?: string[];
  $ref?: string;
  [more: string]: unknown;
};
type Operation = {
  parameters?: { name: string; in: string }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
};
type Attack = {
  what: string;
  query?: string;
  headers?: Record<string, string>;
  type?: string;
  body?: string;
};

let service: Running;
let longestMs: () => Promise<number>;
const operatorKey = newAccountKey();
let routes: Route<Operation>[];
let schemas: Record<string, Schema>;
/** What names the project of a request to /sql. */
let connection: string;

beforeAll(async () => {
  ({ service, longestMs } = await launchWatched(operatorKey));
  for (const slug of ['wide', 'calm'])
    expect((await service.call('POST', '/projects', { body: { name: slug, slug } })).status).toBe(201);
  for (const query of [
    'create type part as (a int, b text)',
    'create table t (id serial primary key, v text, n int, d numeric, j jsonb, raw json, js jsonb[], i int[], p part, ps part[])',
    "insert into t (v) values ('x')",
    `create table many (${Array.from({ length: 1_000 }, (_, n) => `c${n} int`)})`,
  ])
    expect((await service.call('POST', '/projects/wide/query', { body: { query } })).status, query).toBe(200);
  connection = (await service.call('GET', '/projects/wide/connection')).body.connection.url;
  ({ routes, schemas } = await readOpenApi<Operation, Schema>(service));
});

async function send(method: string, url: string, { query, headers = {}, type, body }: Attack) {
  const address = query === undefined ? url : `${url}${url.includes('?') ? '&' : '?'}${query}`;
  const response = await fetch(service.url + address, {
    method,
    headers: {
      ...(url === '/sql' ? { 'neon-connection-string': connection } : { 'x-api-key': operatorKey }),
      ...(body !== undefined && { 'content-type': type ?? json }),
      ...headers,
    },
    ...(body !== undefined && { body }),
  });
  const text = await response.text();
  return { status: response.status, text: text.slice(0, 300) };
}

const json = 'application/json';
const lines = 'application/x-ndjson';

/** What the attack kept busy, the best of several tries. */
async function attack(method: string, url: string, given: Attack): Promise<string | null> {
  const taken: number[] = [];
  let last = '';
  while (taken.length < tries) {
    const { status, text } = await send(method, url, given);
    last = `${status} ${text}`;
    taken.push(await longestMs());
    if (status >= 500 && status !== 503) return `${given.what}: ${last}`;
    if (Math.min(...taken) <= maxBusyMs) return null;
  }
  return `${given.what}: the event loop was busy for ${taken.join(', ')} ms; ${last}`;
}

const keys = (count: number, nameOf: (n: number) => string) =>
  `{${Array.from({ length: count }, (_, n) => `"${nameOf(n)}":1`)}}`;
const mb = 1_000_000;

/** Values that are as large as `bytes` allow, as JSON text. */
function hugeValues(bytes: number): [what: string, text: string][] {
  const count = Math.min(99_000, Math.floor(bytes / 18));
  return [
    ['many keys', keys(count, (n) => `k${n}`)],
    ['many keys that are numbers', keys(count, (n) => String((n * 40_007) % 4_000_000_000))],
    ['many long numbers as keys', keys(count, (n) => String(4_294_967_296 + n * 16_777_216))],
    ['many small objects', `[${'{"a":1},'.repeat(Math.floor(bytes / 10) - 2)}{}]`.slice(0, 16 * mb)],
    [
      'objects of many keys',
      `[${Array(Math.max(1, Math.floor(bytes / 70_000))).fill(keys(5_000, (n) => `k${n}`))}]`,
    ],
    ['many numbers', `[${'1,'.repeat(Math.min(0.9 * mb, Math.floor(bytes / 2)) - 20)}1]`],
    ['many texts', `[${'"",'.repeat(Math.min(0.9 * mb, Math.floor(bytes / 3) - 2))}""]`],
    ['depth', `${'['.repeat(bytes / 2 - 20)}${']'.repeat(bytes / 2 - 20)}`],
    ['depth that is taken', '{"a":['.repeat(450) + ']}'.repeat(450)],
    ['a long text', `"${'x'.repeat(bytes - 200)}"`],
    ['a long text of escapes', `"${'\\u00fc\\"\\\\'.repeat(Math.floor(bytes / 12))}"`],
    ['a long number', '9'.repeat(Math.min(140_000, bytes - 200))],
    ['space', `10000${' '.repeat(bytes - 200)}`],
  ];
}

function resolved(schema: Schema | undefined): Schema {
  const name = schema?.$ref?.split('/').at(-1);
  return (name ? schemas[name] : schema) ?? {};
}

/** Those whose bodies can have megabytes. */
const takesMuch = (path: string) => /\/(query|batch|sql|tables\/\{table\})$/.test(path);
/** Every place takes these; a value of another kind is read in the same way wherever it stands. */
const everywhere = new Set(['many keys', 'many small objects', 'many numbers', 'a long text']);

function bodiesFor(path: string, schema: Schema): Attack[] {
  const { properties = {} } = resolved(schema);
  const attacks: Attack[] = [];
  for (const [what, text] of hugeValues(takesMuch(path) ? 4 * mb : 240_000)) {
    attacks.push({ what: `${what} as the body`, body: text });
    attacks.push({ what: `${what} in a list`, body: `[${text}]` });
    if (!takesMuch(path) && !everywhere.has(what)) continue;
    attacks.push({ what: `${what} as an unknown property`, body: `{"nobody_knows":${text}}` });
    for (const [name, inner] of Object.entries(properties)) {
      // A later property of the same name counts. /sql takes either a query or a list of them.
      const begin = `{${name === 'queries' ? '' : needed(resolved(schema))}"${name}":`;
      attacks.push({ what: `${what} as ${name}`, body: `${begin}${text}}` });
      const entry = resolved(resolved(inner).items);
      if (resolved(inner).items) attacks.push({ what: `${what} in ${name}`, body: `${begin}[${text}]}` });
      for (const one of Object.keys(entry.properties ?? {}))
        attacks.push({
          what: `${what} as ${one} in ${name}`,
          body: `${begin}[{${needed(entry)}"${one}":${text}}]}`,
        });
    }
  }
  return attacks;
}

/** What a statement needs, so that it is not refused for what it lacks. Elsewhere, a request that is refused does nothing. */
function needed({ required = [], properties = {} }: Schema): string {
  const query = 'query' in properties ? '"query":"select 1",' : '';
  return required.includes('statements') ? `"statements":[{${query || '"query":"select 1"'}}],` : query;
}

/** The path with things that exist. */
const urlOf = (path: string) =>
  path
    .replace('{slug}', 'wide')
    .replace('{table}', 't')
    .replace(/\{\w+\}/g, '3f0e0e6a-0000-4000-8000-000000000000');

async function failuresOf(method: string, url: string, attacks: Attack[]): Promise<string[]> {
  const failures: string[] = [];
  await longestMs();
  for (const one of attacks) {
    const failure = await attack(method, url, one);
    if (failure) failures.push(`${method} ${url}: ${failure}`);
  }
  return failures;
}

async function neighbourIsFine() {
  const { status } = await service.call('POST', '/projects/calm/query', { body: { query: 'select 1' } });
  expect(status).toBe(200);
}

describe('the event loop stays free', { timeout: 600_000 }, () => {
  it.each([
    ['that take megabytes', true],
    ['that take less', false],
  ])('with the widest, deepest and longest bodies of all endpoints %s', async (_what, isLarge) => {
    const failures: string[] = [];
    for (const { method, path, operation } of routes) {
      if (takesMuch(path) !== isLarge) continue;
      const schema = operation.requestBody?.content[json]?.schema;
      if (schema) failures.push(...(await failuresOf(method, urlOf(path), bodiesFor(path, schema))));
    }
    expect(failures).toEqual([]);
    await neighbourIsFine();
  });

  it('with values of every kind for columns and parameters', async () => {
    const failures: string[] = [];
    const base = '/api/dbaas/v2/projects/wide';
    // 99,000 names have as many bytes. PostgreSQL takes seconds for larger arrays of jsonb.
    for (const [what, text] of hugeValues(1.8 * mb)) {
      // A project near its limit would measure each change, and a full one refuse it.
      const query = "truncate t restart identity; insert into t (v) values ('x')";
      for (const one of query.split('; '))
        expect((await service.call('POST', `${base}/query`, { body: { query: one } })).status).toBe(200);
      for (const column of ['v', 'd', 'j', 'raw', 'js', 'i', 'p', 'ps']) {
        const row = `{"${column}":${text}}`;
        const named = { what: `${what} for ${column}` };
        failures.push(
          ...(await failuresOf('POST', `${base}/tables/t?returning=minimal`, [
            { ...named, body: row },
            { ...named, what: `${named.what} in a list`, body: `[{"v":"a"},${row}]` },
          ])),
          ...(await failuresOf('POST', `${base}/tables/t`, [
            { ...named, what: `${named.what} in a line`, body: `${row}\n`, type: lines },
          ])),
          ...(await failuresOf('PATCH', `${base}/tables/t?id=eq.1&returning=minimal`, [
            { ...named, body: row },
          ])),
        );
      }
      for (const type of ['text', 'int', 'int[]', 'json', 'jsonb', 'jsonb[]', 'part', 'numeric'])
        failures.push(
          ...(await failuresOf('POST', `${base}/query`, [
            {
              what: `${what} as $1::${type}`,
              body: `{"query":"select count($1::${type})","params":[${text}]}`,
            },
          ])),
        );
    }
    expect(failures).toEqual([]);
    await neighbourIsFine();
  });

  it('with wide rows, lines and headers of CSV', async () => {
    const rows = '/api/dbaas/v2/projects/wide/tables/many';
    const returning = '?returning=minimal';
    const row = keys(1_000, (n) => `c${n}`);
    const more = keys(99_000, (n) => `c${n}`);
    const bodies: Attack[] = [
      { what: 'rows of a thousand keys', body: `[${Array(800).fill(row)}]` },
      { what: 'a row of too many keys', body: more },
      { what: 'rows of too many keys', body: `[${row},${more},${more}]` },
      { what: 'lines of a thousand keys', body: `${row}\n`.repeat(800), type: lines },
      { what: 'a line of too many keys', body: `${more}\n`, type: lines },
      { what: 'a second line of too many keys', body: `${row}\n${more}\n`, type: lines },
      { what: 'columns of CSV', body: `${'c0,'.repeat(80_000)}c1\n1\n`, type: 'text/csv' },
      { what: 'fields of CSV', body: `c0,c1\n${'1,'.repeat(4 * mb)}1\n`, type: 'text/csv' },
      { what: 'lines of CSV', body: `c0,c1\n${'1,1\n'.repeat(mb)}`, type: 'text/csv' },
      { what: 'empty lines', body: `${row}\n${'\n'.repeat(8 * mb)}`, type: lines },
    ];
    // What is streamed takes no parameters.
    for (const one of bodies)
      expect(await failuresOf('POST', one.type ? rows : rows + returning, [one])).toEqual([]);
    await neighbourIsFine();
  });

  it('with the longest query strings of every endpoint', async () => {
    const failures: string[] = [];
    const long = 15_000;
    const values = (name: string): Attack[] =>
      [
        ['a long value', 'x'.repeat(long)],
        ['parentheses', '('.repeat(long)],
        ['pairs of parentheses', `${'a('.repeat(long / 4)}${')'.repeat(long / 4)}`],
        ['nested conditions', `${'(or'.repeat(long / 6)}(id.eq.1)${')'.repeat(long / 6)}`],
        ['commas', 'a,'.repeat(long / 2)],
        ['conditions', `(${'id.eq.1,'.repeat(long / 8)}id.eq.1)`],
        ['quotes', '"'.repeat(long)],
        ['backslashes', '\\'.repeat(long / 2)],
        ['escapes', '%00'.repeat(long / 3)],
        ['stars', '*'.repeat(long)],
        ['dots', '.'.repeat(long)],
        ['spaces', `x${'+'.repeat(long)}x`],
        ['digits', '9'.repeat(long)],
      ].map(([what, value]) => ({ what: `${what} for ${name}`, query: `${name}=${value}` }));
    for (const { method, path, operation } of routes) {
      // Without a body, a request that is not refused would do what it asks for.
      if (method !== 'GET') continue;
      const known = operation.parameters?.filter((one) => one.in === 'query').map(({ name }) => name) ?? [];
      const names = path.endsWith('/tables/{table}') ? [...known, 'id', 'v', 'or', 'select', 'order'] : known;
      failures.push(
        ...(await failuresOf(method, urlOf(path), [
          ...[...new Set([...names, 'nobody_knows'])].flatMap(values),
          { what: 'many names', query: Array.from({ length: 2_500 }, (_, n) => `k${n}`).join('&') },
          { what: 'one name many times', query: 'limit=1&'.repeat(1_800) },
          {
            what: 'names that are numbers',
            query: Array.from({ length: 1_300 }, (_, n) => `${n * 40_007}=`).join('&'),
          },
        ])),
      );
    }
    expect(failures).toEqual([]);
    await neighbourIsFine();
  });

  it('with the longest headers', async () => {
    const failures: string[] = [];
    const long = 14_000;
    const names = [
      'accept',
      'accept-language',
      'authorization',
      'content-type',
      'content-encoding',
      'cookie',
      'forwarded',
      'idempotency-key',
      'if-none-match',
      'neon-connection-string',
      'origin',
      'prefer',
      'range',
      'traceparent',
      'x-api-key',
      'x-forwarded-for',
      'x-forwarded-host',
      'x-request-id',
    ];
    const values = (name: string): Attack[] =>
      [
        'a,',
        'a=b;',
        ';q=0.1,',
        '/',
        'a/b;',
        '"',
        ' a',
        '1.1.1.1, ',
        ':',
        'x',
        'charset="',
        'Bearer ',
        '%2',
      ].map((part) => ({
        what: `${name}: ${part}…`,
        headers: { [name]: `a${part.repeat(long / part.length)}a` },
      }));
    for (const [method, url, body] of [
      ['POST', '/api/dbaas/v2/projects/wide/query', '{"query":"select 1"}'],
      ['POST', '/sql', '{"query":"select 1"}'],
      ['GET', '/api/dbaas/v2/projects/wide/tables/t', undefined],
      ['POST', '/mcp', '{"jsonrpc":"2.0","id":1,"method":"ping"}'],
    ] as const)
      for (const name of names)
        failures.push(
          ...(await failuresOf(
            method,
            url,
            values(name).map((one) => ({ ...one, ...(body && { body }) })),
          )),
        );
    const many = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`x-h${n}`, '1']));
    failures.push(
      ...(await failuresOf('GET', '/api/dbaas/v2/projects/wide/tables/t', [
        { what: 'many headers', headers: many },
      ])),
    );
    expect(failures).toEqual([]);
    await neighbourIsFine();
  });

  it('with the largest messages of agents', async () => {
    const attacks = hugeValues(900_000).flatMap(([what, text]): Attack[] => {
      const message = (method: string, params: string) =>
        `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
      return [
        { what: `${what} as the message`, body: text },
        { what: `${what} as the id`, body: `{"jsonrpc":"2.0","id":${text},"method":"ping"}` },
        { what: `${what} as the parameters`, body: message('tools/call', text) },
        {
          what: `${what} as arguments`,
          body: message('tools/call', `{"name":"run_sql","arguments":${text}}`),
        },
        {
          what: `${what} in arguments`,
          body: message(
            'tools/call',
            `{"name":"query","arguments":{"project":"wide","query":"select 1","params":[${text}]}}`,
          ),
        },
        { what: `${what} as the method`, body: `{"jsonrpc":"2.0","id":1,"method":${text}}` },
      ];
    });
    const accept = 'application/json, text/event-stream';
    expect(
      await failuresOf(
        'POST',
        '/mcp',
        attacks.map((one) => ({ ...one, headers: { accept } })),
      ),
    ).toEqual([]);
    await neighbourIsFine();
  });
});
