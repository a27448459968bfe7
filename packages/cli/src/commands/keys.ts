// rowhouse keys: lists, issues, revokes and rotates a project's API keys.
import type {
  IssuedKeyResponse,
  IssueKey,
  Key,
  KeyResponse,
  KeysResponse,
  RotatedKeyResponse,
  RotateKey,
  Scope,
} from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { show, showList } from '../output.ts';
import { clean, formatFields, formatTable } from '../table.ts';
import { formatTime, parseDuration, parseWhen } from '../when.ts';

export function addKeys(program: Command): void {
  const keys = program
    .command('keys')
    .summary("list, issue, revoke and rotate a project's API keys")
    .description("List, issue, revoke and rotate a project's API keys.");
  const add = (usage: string, about: string) => withApiOptions(keys.command(usage).description(about));

  withListOptions(keys.command('list <slug>').description("List a project's keys.")).action(list);
  add('issue <slug>', 'Issue an additional key with fewer rights than the project key.')
    .alias('create')
    .requiredOption('--name <name>', 'name that says what the key is for')
    .option(
      '--scope <scope>',
      'scope of the key: query, query:read, tables:read, tables:write, auth or manage (repeatable)',
      collect,
    )
    .option(
      '--table <table>',
      'table or schema.table the key can use (repeatable; default: every table)',
      collect,
    )
    .option(
      '--expires <when>',
      'when the key expires: 30d, 12h, 45m, 2027-01-31 or 2027-01-31T09:00Z (default: never)',
      (text) => parseWhen(text),
    )
    .option(
      '--publishable',
      'issue a key for browsers: sign-up, sign-in, and tables with row security, as the signed-in user or ' +
        'as role anon where the project granted it access',
    )
    .action(issue);
  add('revoke <slug> <id>', 'Revoke a key. It stops working within a second.').action(revoke);
  add('rotate <slug>', "Replace the project's own key.")
    .option(
      '--grace <duration>',
      'how long the old key keeps working, such as 12h or 0s (default: 24h)',
      parseDuration,
    )
    .action(rotate);
}

async function list(slug: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<KeysResponse>(options, 'GET', ['projects', slug, 'keys']);
  showList(options, answer, answer.keys, {
    table: () => tableOf(answer.keys),
    empty: 'The project has no keys.',
  });
}

type IssueOptions = ApiOptions & {
  name: string;
  scope?: string[];
  table?: string[];
  expires?: string;
  publishable?: boolean;
};

async function issue(slug: string, options: IssueOptions): Promise<void> {
  const body: IssueKey = {
    name: options.name,
    ...(options.publishable && { kind: 'publishable' }),
    // The service rejects unknown scopes and lists the valid ones.
    ...(options.scope && { scopes: options.scope as Scope[] }),
    ...(options.table && { tables: options.table }),
    ...(options.expires && { expires_at: options.expires }),
  };
  const answer = await callApi<IssuedKeyResponse>(options, 'POST', ['projects', slug, 'keys'], { body });
  show(options, answer, (given) => secretOf(given.key, given.api_key));
}

async function revoke(slug: string, id: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<KeyResponse>(options, 'DELETE', ['projects', slug, 'keys', id]);
  show(options, answer, ({ key }) => clean(`Key ${key.id} (${key.name}) is revoked.`));
}

async function rotate(slug: string, options: ApiOptions & { grace?: number }): Promise<void> {
  const body: RotateKey = options.grace === undefined ? {} : { grace_seconds: options.grace };
  const path = ['projects', slug, 'keys', 'rotate'];
  const answer = await callApi<RotatedKeyResponse>(options, 'POST', path, { body });
  show(options, answer, ({ key, api_key: apiKey, previous }) =>
    [
      secretOf(key, apiKey),
      clean(
        `The old key (${previous.start}…) ${body.grace_seconds === 0 ? 'has ended' : `works until ${formatTime(previous.expires_at)}`}.`,
      ),
    ].join('\n'),
  );
}

function secretOf(key: Key, apiKey: string): string {
  return formatFields([
    ['id', key.id],
    ['name', key.name],
    ['kind', key.kind],
    ['scopes', key.scopes.join(', ')],
    ['tables', tablesOf(key)],
    ['expires', key.expires_at ? formatTime(key.expires_at) : 'never'],
    ['key', `${apiKey}   This key is shown only once. Store it now.`],
  ]);
}

function tableOf(keys: readonly Key[]): string {
  return formatTable(
    [
      { title: 'ID' },
      { title: 'NAME', max: 40 },
      { title: 'KIND' },
      { title: 'BEGINS' },
      { title: 'STATUS' },
      { title: 'EXPIRES' },
      { title: 'LAST USED' },
      { title: 'ISSUED BY', max: 40 },
      { title: 'TABLES', max: 40 },
      { title: 'SCOPES' },
    ],
    keys.map((key) => [
      key.id,
      key.name,
      key.kind,
      key.start,
      key.status,
      formatTime(key.expires_at),
      formatTime(key.last_used_at),
      key.issued_by?.email ?? '-',
      tablesOf(key),
      key.scopes.join(', '),
    ]),
  );
}

function tablesOf(key: Key): string {
  return key.tables ? key.tables.join(', ') : 'every';
}

function collect(text: string, before: string[] = []): string[] {
  return [...before, text];
}
