// npm run docs: generates the pages whose tables come from the code. A test fails while a page is out of date.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { errorCodes } from '../packages/api/dist/index.js';
import { defaultOf, flagOf, settings } from '../packages/api/dist/settings.js';

const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** Each page by its path from the root. */
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

Every answer is JSON with \`ok\`. A failure has a fitting HTTP status and says what happened, and where there is one, the next step:

\`\`\`console
$ export URL=http://127.0.0.1:8765/api/dbaas/v2 KEY=rh_acct_…
$ curl -s $URL/projects -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"name": "Errors", "slug": "errors"}' | cut -c1-10
{"ok":true
$ curl -s $URL/projects/errors/query -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"query": "select * from tea"}'
{"ok":false,"error":{"code":"sql_error","message":"relation \\"tea\\" does not exist",…"sql":{"state":"42P01","position":"15"}},"request_id":"…"}
$ curl -s $URL/projects/errors/tables/tea -H "X-API-Key: $KEY"
{"ok":false,"error":{"code":"table_not_found","message":"The project has no table or view \\"tea\\".","hint":"GET /api/dbaas/v2/projects/:slug/tables lists those it has."},"request_id":"…"}
$ curl -s $URL/projects -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"nam": "Errors", "limit_mb": 0}'
{"ok":false,"error":{"code":"invalid_request",…"details":[…]},"request_id":"…"}
$ curl -s $URL/projects
{"ok":false,"error":{"code":"missing_api_key",…
$ curl -s $URL/projects -H 'X-API-Key: rh_acct_mistyped'
{"ok":false,"error":{"code":"invalid_api_key",…
\`\`\`

| | |
| --- | --- |
| \`code\` | stable: branch on this |
| \`message\`, \`hint\` | for people; both may change |
| \`details\` | facts for programs, by code: \`limit_mb\` and \`size_mb\`, \`retryable\`, a list of \`path\` and \`problem\` |
| \`sql\` | PostgreSQL's own words about your SQL: \`state\` (the SQLSTATE), \`position\`, \`detail\`, \`hint\`, \`schema\`, \`table\`, \`column\`, \`constraint\` |
| \`request_id\` | the same as in the header \`X-Request-Id\`; the service's log has it |

${table(['status', 'code', 'meaning'], rows)}

**When an answer comes.** Every request is answered within its \`timeout_ms\` and one second, or within 30 seconds if it has none, whatever PostgreSQL does. Time in which you send the body or read the answer does not count.

**When to send it again.** 429 and 503 \`unavailable\` carry \`Retry-After\`, and nothing was run. After \`outcome_unknown\`, or when no answer came at all, a change may have been made: look first, or send every POST with an [\`Idempotency-Key\`](idempotency.md), which makes a repeat safe. The [client](client.md) waits and sends again what was not run; give it \`idempotencyKey: true\` for the rest.
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
  const root = fileURLToPath(new URL('..', import.meta.url));
  for (const [file, text] of Object.entries(pages())) writeFileSync(path.join(root, file), text);
}
