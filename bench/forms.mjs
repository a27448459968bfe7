// Queries, pages, inserts, updates and batches in every form in which callers send them: by Bearer and X-API-Key, as Node's
// fetch and as Chromium, on tables with row security, and as users. Each is compared with the obvious program (fastify + pg +
// JSON.stringify) doing the same work: for users it verifies the token, begins, sets role and claims, runs and commits; for
// repeats it keeps keys in a table. Many users take turns in one load, and ids are random. Then the same from real clients:
// httpx, net/http, and the TypeScript client in Chromium. A client that is missing is reported.
// npm run bench -- forms [--seconds 3] [--repeats 7] [--users 50] [--only "update|batch"] [--quick] [--write]. Needs wrk.
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { checkForms } from './forms/check.mjs';
import { measureClients } from './forms/clients.mjs';
import { makeLogin, makeProject } from './forms/project.mjs';
import { formsOf, toLua } from './forms/requests.mjs';
import { summarize } from './forms/summary.mjs';
import { needTools, start, startService, stop, superuserUrl, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { othersMs, postmasterOf, withCpuMs } from './processes.mjs';
import { quote, report } from './report.mjs';

const options = readOptions({
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 7 },
  connections: 32,
  users: { quick: 10, full: 50, what: 'users whose tokens take turns' },
  only: { quick: null, full: null, what: 'measures only forms whose names match this regular expression' },
  'no-clients': { quick: false, full: false, what: 'leaves out httpx, net/http and Chromium' },
});
const { connections, seconds, repeats } = options;
const wanted = options.only && new RegExp(options.only);
needTools('wrk');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-forms-'));
const ours = await startService(folder);
const obviousUrl = `http://127.0.0.1:${ours.port + 1}`;
const measured = new Map();
let clients = { rows: [], missing: [] };
let obvious;
let othersShare = 0;

function load(form, isOurs) {
  const base = isOurs ? ours.url : obviousUrl;
  const prefix = isOurs ? new URL(ours.url).pathname : '';
  const lua = toLua(form, isOurs, prefix, project.tokens);
  return wrk(folder, base, { ...lua, connections, seconds });
}

/** An account keeps 100,000 keys a day, and a load could send more. */
async function forgetRepeats() {
  const control = new pg.Client({ connectionString: await superuserUrl(ours.data, 'rowhouse') });
  await control.connect();
  try {
    await control.query('truncate repeats');
  } finally {
    await control.end();
  }
  await ours.query('truncate requests');
}

/** One turn of every form on both sides. Every other turn runs backwards, because the machine's speed changes over time. */
async function takeTurn(forms, turn) {
  const isBackwards = turn % 2 === 1;
  for (const form of isBackwards ? forms.toReversed() : forms) {
    const sides = {
      ours: () => withCpuMs(ours.pid, postmasterOf(ours.data), () => load(form, true)),
      theirs: () => load(form, false),
    };
    const order = isBackwards ? ['theirs', 'ours'] : ['ours', 'theirs'];
    const results = {};
    for (const side of order) results[side] = sides[side]();
    if (form.headers['idempotency-key']) await forgetRepeats();
    // The first turn is not counted: it opens connections and compiles code, on both sides.
    if (turn >= 0) measured.set(form.name, [...(measured.get(form.name) ?? []), results]);
  }
}

const project = await makeProject(ours, options.users).catch(async (error) => {
  await stop(ours);
  throw error;
});
const forms = formsOf({ ...ours, ...project }).filter(({ name }) => !wanted || wanted.test(name));
try {
  obvious = await start(
    'bench/peers/obvious/server.mjs',
    { DATABASE_URL: await makeLogin(ours), PORT: String(ours.port + 1), JWT_SECRET: ours.key },
    /ready/,
  );
  await checkForms({ ours: ours.url, obvious: obviousUrl }, forms, project.tokens);
  const others = othersMs(process.pid, postmasterOf(ours.data));
  const began = performance.now();
  for (let turn = options.quick ? 0 : -1; turn < repeats; turn++) await takeTurn(forms, turn);
  othersShare =
    (othersMs(process.pid, postmasterOf(ours.data)) - others) /
    (performance.now() - began) /
    availableParallelism();
  if (!options['no-clients'])
    clients = await measureClients({ ours, obviousUrl, project, folder, seconds, repeats, connections });
} finally {
  if (obvious) await stop(obvious);
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
const { header, rows, tables, docs, sentence } = summarize(forms, measured, clients.rows);
report('forms', header, rows, options.write, {
  bars: { column: '× obvious', label: 'requests per second: ours / the obvious program', mark: 1 },
  tables,
  notes: [
    `${connections} connections, ${options.users} users. Both sides get the same headers. The obvious program checks no key and no limits; it verifies the signature and the time of a user's token, not the session.`,
    'It sends its statements without names, as pg does. For a user it sends four: begin, one that sets role and claims, its own, commit. With Idempotency-Key it sends five, and it does not compare bodies.',
    '× X-API-Key: compared with the same operation by X-API-Key on a table without row security, of the same turn. A page by id has one row.',
    ...clients.missing,
    `Other processes of the machine took ${(othersShare * 100).toFixed(0)} % of its cores meanwhile.`,
  ],
});
if (options.write && docs) {
  quote('docs/performance.md', 'forms', docs);
  quote('README.md', 'forms', sentence);
}
