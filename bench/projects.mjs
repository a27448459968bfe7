// Creates projects one after another, lists them as their number grows, and restarts the service with all of them.
// npm run bench -- projects [--projects 1000] [--quick] prints a table; --write also writes it to bench/RESULTS.md.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const { quick, write, projects: total } = readOptions({ projects: { quick: 30, full: 1_000 } });
const spares = quick ? 10 : 50;
/** How many creations are measured. Those after them only fill the list. */
const measured = quick ? 20 : 200;
const data = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-'));
const port = 20_000 + Math.floor(Math.random() * 20_000);
const api = `http://127.0.0.1:${port}/api/dbaas/v2`;
let key = '';

async function start() {
  const started = performance.now();
  const main = path.resolve(import.meta.dirname, '../packages/server/dist/main.js');
  const env = {
    ...process.env,
    ROWHOUSE_DATA: data,
    ROWHOUSE_PORT: String(port),
    ROWHOUSE_SPARES: String(spares),
  };
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  await new Promise((resolve, reject) => {
    child.once('exit', () => reject(new Error(output)));
    child.stdout.on('data', (piece) => {
      output += piece;
      if (/^ready$/m.test(output)) resolve();
    });
  });
  key ||= /rh_acct_\w+/.exec(output)[0];
  return { child, ms: performance.now() - started };
}

async function stop(child) {
  child.removeAllListeners('exit');
  child.kill('SIGTERM');
  await once(child, 'exit');
}

async function call(method, target, body) {
  const headers = { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) };
  const started = performance.now();
  const response = await fetch(api + target, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (!answer.ok) throw new Error(`${method} ${target}: ${JSON.stringify(answer)}`);
  return performance.now() - started;
}

async function createMany(count) {
  const times = [];
  for (let n = 0; n < count; n++) times.push(await call('POST', '/projects', { name: `Bench ${n}` }));
  return times;
}

async function sparesReady(wanted) {
  for (;;) {
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    if (Number(/^rowhouse_spares (\d+)/m.exec(metrics)?.[1]) >= wanted) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function listing() {
  const times = [];
  for (let n = 0; n < (quick ? 100 : 300); n++) times.push(await call('GET', '/projects?limit=50'));
  return times.slice(50);
}

const quantile = (times, q) =>
  [...times].sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * q))];
const ms = (value) => `${value.toFixed(1)} ms`;
const row = (what, times, goal) => [
  what,
  String(times.length),
  ms(quantile(times, 0.5)),
  ms(quantile(times, 0.99)),
  goal,
];

const rows = [];
let service = await start();
rows.push(['first start (with initdb)', '1', ms(service.ms), '', '']);
try {
  await sparesReady(spares);
  await call('GET', '/projects');
  await createMany(10);
  const few = await listing();
  await sparesReady(spares);
  const fast = await createMany(spares - 5);
  rows.push(row('create, from spares', fast, 'p50 < 20 ms'));
  const slow = await createMany(measured - spares + 5);
  rows.push(row('create, without spares', slow, 'p50 < 500 ms, no failure'));
  const made = 10 + fast.length + slow.length;
  if (total > made) await createMany(total - made);
  await sparesReady(spares);
  const many = await listing();
  rows.push(row('GET /projects?limit=50, 10 projects', few, ''));
  rows.push(row(`GET /projects?limit=50, ${total} projects`, many, 'as with 10, ± noise'));
  rows.push(['ratio of the two', '', (quantile(many, 0.5) / quantile(few, 0.5)).toFixed(2), '', '']);
  for (const how of ['SIGTERM', 'SIGKILL']) {
    if (how === 'SIGTERM') await stop(service.child);
    else {
      service.child.removeAllListeners('exit');
      service.child.kill('SIGKILL');
      await once(service.child, 'exit');
    }
    service = await start();
    rows.push([`restart after ${how} with ${total} projects`, '1', ms(service.ms), '', '< 5 s']);
  }
} finally {
  await stop(service.child);
  rmSync(data, { recursive: true, force: true });
}
report('projects', ['what', 'n', 'p50', 'p99', 'goal'], rows, write, {
  bars: { column: 'p50', unit: ' ms', label: { label: 'ms, median', log: true } },
});
