// What Rowhouse's own reader of requests saves: processor time of the service's process per request, behind it and behind Node's
// HTTP server. Both serve the same pipeline, with statements left out: queries, pages and inserts, with either header, as wrk,
// Node's fetch and Chromium send them. To try another version of Node.js, run the benchmark with it.
// npm run bench -- readers [--seconds 2] [--repeats 5] [--connections 32] [--quick] [--write]. Needs wrk.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium, nodeFetch } from './forms/headers.mjs';
import { needTools, start, stop, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { cpuMsOf } from './processes.mjs';
import { report } from './report.mjs';

const { seconds, repeats, connections, write } = readOptions({
  seconds: { quick: 1, full: 2 },
  repeats: { quick: 1, full: 5 },
  connections: 32,
});
needTools('wrk');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-readers-'));
const key = `rh_proj_${'k'.repeat(49)}`;
const operations = {
  query: ['POST', '/query', '{"query":"select id, name from items where id = $1","params":[12345]}'],
  page: ['GET', '/tables/items?id=eq.12345'],
  insert: ['POST', '/tables/sales', '{"item":12345,"note":"bench"}'],
};
const callers = { 'a server': {}, "Node's fetch": nodeFetch, Chromium: chromium };
const keys = { 'X-API-Key': { 'x-api-key': key }, Bearer: { authorization: `Bearer ${key}` } };
const readers = ['ours', 'node'];

function loadOf([method, target, body], headers) {
  const all = { ...headers, ...(body && { 'content-type': 'application/json' }) };
  const list = Object.entries(all).map(
    ([name, value]) => `[${JSON.stringify(name)}]=${JSON.stringify(value)}`,
  );
  const whole = [method, `/api/dbaas/v2/projects/shop${target}`].map((text) => JSON.stringify(text));
  const request = `return wrk.format(${whole.join(', ')}, { ${list.join(', ')} }, ${body ? `[[${body}]]` : 'nil'})`;
  return { request, connections, seconds };
}

const median = (values) => values.toSorted((one, other) => one - other)[values.length >> 1];
const servers = {};
const rows = [];
const ratios = [];
try {
  for (const [index, reader] of readers.entries()) {
    const port = 21_000 + index + Math.floor(Math.random() * 4_000) * 2;
    servers[reader] = {
      port,
      ...(await start('bench/readers/server.mjs', { READER: reader, PORT: String(port) }, /ready/)),
    };
  }
  for (const [operation, what] of Object.entries(operations))
    for (const [by, keyHeader] of Object.entries(keys))
      for (const [from, more] of Object.entries(callers)) {
        const us = { ours: [], node: [] };
        // The first turn is not counted.
        for (let turn = -1; turn < repeats; turn++)
          for (const reader of turn % 2 ? readers : readers.toReversed()) {
            const { port, child } = servers[reader];
            const before = cpuMsOf(child.pid);
            const { requests } = wrk(
              folder,
              `http://127.0.0.1:${port}`,
              loadOf(what, { ...more, ...keyHeader }),
            );
            if (turn >= 0) us[reader].push(((cpuMsOf(child.pid) - before) * 1000) / requests);
          }
        const [ours, node] = readers.map((reader) => median(us[reader]));
        const each = us.node
          .map((value, turn) => value / us.ours[turn])
          .toSorted((one, other) => one - other);
        ratios.push(median(each));
        const spread = `${each[0].toFixed(2)}–${each.at(-1).toFixed(2)}`;
        rows.push([
          `${operation}, ${by}, from ${from}`,
          ours.toFixed(1),
          node.toFixed(1),
          median(each).toFixed(2),
          spread,
        ]);
      }
} finally {
  for (const server of Object.values(servers)) await stop(server).catch(() => {});
  rmSync(folder, { recursive: true, force: true });
}
const header = ['', "Rowhouse's reader, µs", "Node's server, µs", 'ratio', 'spread'];
const notes = [
  `Median of the ${ratios.length} forms: ${median(ratios).toFixed(2)}.`,
  `${connections} connections. Processor time of one process, which answers without PostgreSQL.`,
];
report('readers', header, rows, write, { notes });
