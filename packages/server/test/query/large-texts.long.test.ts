// Texts that are too large to be parsed by the service: they may do no more than those that are.
import { expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
const mb = 1024 * 1024;
const large = mb + 1000;

const newProject = async () => {
  const { slug, key } = await rowhouse.project();
  const run = (query: string) => rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query } });
  const batch = (query: string) =>
    rowhouse.call('POST', `/projects/${slug}/batch`, { key, body: { statements: [{ query }] } });
  return { slug, run, batch };
};
/** The same statement, as a small and as a large text. */
const enlarge = (text: string): [name: string, text: string][] => [
  ['behind a comment', `${text} /*${'x'.repeat(large)}*/`],
  ['behind blanks', `${text}${' '.repeat(large)}`],
  ['with a comment before it', `/* a /* nested */ one */ -- and\n;; ${text} --${'x'.repeat(large)}`],
  ['with a large comment before it', `/*${'x'.repeat(large)}*/ ${text}`],
];

const nothing: [name: string, text: string][] = [
  ['a block comment', `/*${'x'.repeat(large)}*/`],
  ['a comment to the end of the line', `--${'x'.repeat(large)}`],
  ['many lines of comments', '-- x\n'.repeat(large / 4)],
  ['nested comments', `${'/*'.repeat(large / 2)}${'*/'.repeat(large / 2)}`],
  ['a comment that is never closed', `/*${'x'.repeat(large)}`],
  ['blanks', ' \t\r\n'.repeat(large / 4)],
  ['semicolons', ';'.repeat(large)],
  ['all of these', `;; /* a */ -- b\n;${' '.repeat(large)}/*${'x'.repeat(large)}*/;`],
  ['as much as a body can hold', `/*${'x'.repeat(31 * mb)}*/`],
  ['as many lines as a body can hold', '--\n'.repeat(7 * mb)],
];
it.each(nothing)('a large text without a statement gets 400: %s', async (_name, text) => {
  const { slug, run, batch } = await newProject();
  const { status, body } = await run(text);
  expect([status, body.error?.code]).toEqual([400, 'invalid_request']);
  expect(body.error.details[0].problem).toBe('must contain a statement');
  expect((await batch(text)).status).toBe(400);
  const { body: place } = await rowhouse.call('GET', `/projects/${slug}/connection`);
  const neon = await rowhouse.call('POST', '/sql', {
    key: '',
    headers: { 'neon-connection-string': place.connection.url },
    body: { query: text, params: [] },
  });
  expect(neon.status).toBe(400);
  expect((await run('select 1')).status).toBe(200);
});

const refused = [
  ...['begin', 'start transaction', 'commit', 'end', 'rollback', 'abort', 'savepoint a', 'release a'],
  ...[
    'set search_path = pg_catalog',
    'SET work_mem = 1000',
    'reset all',
    'prepare p as select 1',
    'execute p',
  ],
  ...[
    'deallocate all',
    'listen a',
    'unlisten *',
    'declare c cursor with hold for select 1',
    'fetch c',
    'move c',
  ],
  ...['close c', 'lock table t', 'discard all', "load 'plpgsql'", 'copy t from stdin', 'copy t to stdout'],
];
it.each(refused)('a large text is refused like a small one: %s', async (text) => {
  const { run } = await newProject();
  await run('create table t (a int)');
  const small = await run(text);
  expect([small.status, small.body.error?.code]).toEqual([400, 'statement_not_allowed']);
  for (const [name, enlarged] of enlarge(text)) {
    const { status, body } = await run(enlarged);
    expect([status, body.error], name).toEqual([400, small.body.error]);
  }
  expect((await run('select 1')).status).toBe(200);
});

it('VACUUM and other statements without a reason to be so large are refused', async () => {
  const { run } = await newProject();
  await run('create table t (a int)');
  for (const text of [
    'vacuum t',
    'analyze t',
    'reindex table t',
    'cluster',
    'notify a',
    'show all',
    'checkpoint',
  ])
    for (const [name, enlarged] of enlarge(text)) {
      const { status, body } = await run(enlarged);
      expect([status, body.error?.code], `${text} ${name}`).toEqual([400, 'statement_not_allowed']);
    }
});

it('statements that are large for a reason run', async () => {
  const { run } = await newProject();
  const literal = 'x'.repeat(large);
  const texts = [
    'create table t (a text)',
    `insert into t values ('${literal}')`,
    `(select length('${literal}') as n)`,
    `with v as (values ('${literal}')) select 1 as n from v`,
    `update t set a = '${literal}'`,
    `delete from t where a = '${literal}'`,
    `do $$ begin perform length('${literal}'); end $$`,
    `create function f() returns int language sql as $$ select length('${literal}') $$`,
    `comment on table t is '${literal}'`,
    `explain select '${literal}'`,
    `;; -- a comment\nselect 1 /*${literal}*/;`,
    `/*${literal}*/ -- and another\n/* a /* nested */ one */ select 1`,
  ];
  for (const text of texts) {
    const { status, body } = await run(text);
    expect(status, `${text.slice(0, 60)}: ${JSON.stringify(body).slice(0, 200)}`).toBe(200);
  }
  const wrong = await run(`5 select /*${literal}*/`);
  expect([wrong.status, wrong.body.error?.sql?.state]).toEqual([400, '42601']);
});
