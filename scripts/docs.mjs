// npm run docs: generates the pages whose tables come from the code. A test fails while a page is out of date.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { errorCodes } from '../packages/api/dist/index.js';
import { defaultOf, flagOf, settings } from '../packages/api/dist/settings.js';

const root = fileURLToPath(new URL('..', import.meta.url));

const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** The text of each page, by its path from the root. */
export function pages() {
  return { 'docs/errors.md': errorsPage(), 'docs/configuration.md': configurationPage() };
}

function errorsPage() {
  const rows = Object.entries(errorCodes).map(([code, { status, meaning }]) => [
    String(status),
    `\`${code}\``,
    meaning,
  ]);
  return `# Errors

\`\`\`console
$ export URL=http://127.0.0.1:8765/api/dbaas/v2 KEY=rh_acct_…
$ api() { curl -s "$URL/$1" -H "X-API-Key: $KEY" -H 'Content-Type: application/json' "\${@:2}"; echo; }
$ api projects -d '{"name": "My Shop"}' | jq -r .project.slug
my-shop
$ api projects/my-shop/query -d '{"query": "select * from tea"}' | jq .
{
  "ok": false,
  "error": {
    "code": "sql_error",
    "message": "relation \\"tea\\" does not exist",…
    "sql": {
      "state": "42P01",
      "position": "15"
    }
  },
  "request_id": "…"
}
$ api projects -d '{"nam": "My Shop", "limit_mb": 0}' | jq -c '.error.code, .error.details[0]'
"invalid_request"
{"path":"…","problem":"…"}
$ api projects/my-shop/tables/tea | jq -r .error.code
table_not_found
$ curl -s $URL/projects | jq -r .error.code
missing_api_key
$ curl -s $URL/projects -H 'X-API-Key: rh_acct_mistyped' | jq -r .error.code
invalid_api_key
\`\`\`

Every response is JSON with \`ok\`. A failure has an HTTP status of 400 or above and these fields:

| field | meaning |
| --- | --- |
| \`error.code\` | stable: branch on this |
| \`error.message\` | what happened, for people; it may change |
| \`error.hint\` | the next step, where there is one; it may change |
| \`error.details\` | facts for programs, by code: \`limit_mb\` and \`size_mb\`, \`retryable\`, a list of \`path\` and \`problem\` |
| \`error.sql\` | PostgreSQL's fields about your SQL: \`state\` (the SQLSTATE), \`position\`, \`detail\`, \`hint\`, \`schema\`, \`table\`, \`column\`, \`constraint\` |
| \`request_id\` | the same as in the header \`X-Request-Id\`; look for it in the service's log |

## Codes

${table(['status', 'code', 'meaning'], rows)}

## When a response comes

Every request is answered within its \`timeout_ms\` plus one second, or within 30 seconds if it has none, even if PostgreSQL hangs. Time in which you send the body or read the response does not count.

## When to retry

- **429 and 503 \`unavailable\`** carry \`Retry-After\`. Nothing ran: wait, then send the request again.
- **\`outcome_unknown\`, or no response:** the change may have been made. Check before you send the request again.
- **With an [\`Idempotency-Key\`](idempotency.md)** a POST is safe to send again in every case.

The [client](client.md#retries) waits and retries requests that did not run. Give it \`idempotencyKey: true\` for the rest.
`;
}

function configurationPage() {
  const rows = Object.entries(settings).map(([name, setting]) => [
    `\`${name}\``,
    `\`${flagOf(name, setting)}\``,
    defaultOf(setting),
    valuesOf(setting),
    setting.secret ? `${setting.description} **Secret.**` : setting.description,
  ]);
  return `# Configuration

Rowhouse reads its settings from environment variables. Each setting is also a flag of \`rowhouse start\` and of \`npm start --\`; a flag overrides the variable. An invalid value or an unknown setting stops the start, with a list of all problems:

\`\`\`console
$ ROWHOUSE_PORT=80a ROWHOUSE_PROT=8080 npx rowhouse start 2>&1
…Rowhouse cannot start:
  ROWHOUSE_PORT must be a whole number from 0 to 65535, not "80a".
  Unknown setting ROWHOUSE_PROT. Known settings: ROWHOUSE_HOST, …
\`\`\`

${table(['setting', 'flag', 'default', 'values', 'meaning'], rows)}

Set secrets in the environment: every user of the machine can see the flags of a running process.

See also [Operating](operating.md), [Limits](limits.md) and [Users](users.md).
`;
}

/** A range, the choices, or an example of the format. */
function valuesOf(setting) {
  const code = (value) => `\`${value}\``;
  switch (setting.type) {
    case 'integer':
      return `${setting.min} to ${setting.max}${setting.unit ? ` ${setting.unit}` : ''}`;
    case 'boolean':
      return ['true', 'false'].map(code).join(', ');
    case 'choice':
      return setting.choices.map(code).join(', ');
    default:
      return setting.example ? `such as ${code(setting.example)}` : setting.format;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [file, text] of Object.entries(pages())) writeFileSync(path.join(root, file), text);
}
