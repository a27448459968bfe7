// The same load from real clients, each against both sides in turns: Python's httpx, Go's net/http, and the TypeScript client in
// Chromium. They take much of the cores themselves, so the ratios are smaller than with wrk.
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { lastId, statements } from '../items.mjs';
import { latency, median, ratios } from '../load.mjs';
import { cpuMs, postmasterOf } from '../processes.mjs';
import { perSecond, range } from '../report.mjs';
import { openChromium } from './chromium.mjs';

/** With more, httpx itself spends most of the time on its pool. */
const httpxConnections = 8;

const file = (name) => path.join(import.meta.dirname, name);

/** Rows of the report, and the clients that are missing with the reason. */
export async function measureClients({ ours, obviousUrl, project, folder, seconds, repeats, connections }) {
  const [rows, missing] = [[], []];
  const queries = {
    ours: { url: `${ours.url}/query` },
    obvious: { url: `${obviousUrl}/query` },
  };
  const pages = {
    ours: { url: new URL(ours.url).origin },
    obvious: { url: `${obviousUrl}/browser` },
  };
  const query = {
    headers: { authorization: `Bearer ${ours.key}`, 'content-type': 'application/json' },
    highestId: lastId,
    before: `{"query":${JSON.stringify(statements.Q1)},"params":[`,
    after: ']}',
    connections,
    seconds,
  };
  const read = { apiKey: project.publishable, tokens: project.tokens, seconds };
  const clients = [
    ["Python's httpx: query, Bearer", openPython, queries, { ...query, connections: httpxConnections }],
    ["Go's net/http: query, Bearer", () => openGo(folder), queries, query],
    ['TypeScript client in Chromium: page by id as a user', openChromium, pages, read],
  ];
  for (const [name, open, sides, load] of clients) {
    const client = await open();
    if (typeof client === 'string') missing.push(`${name}: not measured. ${client}`);
    else rows.push([name, ...(await compare(client, sides, load, ours, repeats))]);
  }
  return { rows, missing };
}

async function compare(client, sides, load, ours, repeats) {
  const turns = { ours: [], obvious: [] };
  const both = [ours.pid, postmasterOf(ours.data)];
  try {
    // The first turn is not counted: it opens connections and compiles code, on all sides.
    for (let turn = -1; turn < repeats; turn++) {
      for (const side of turn % 2 ? ['obvious', 'ours'] : ['ours', 'obvious']) {
        const began = cpuMs(...both);
        const { seconds, took } = await client.run({ ...load, ...sides[side] });
        const own = cpuMs(...both).service - began.service;
        const sorted = took.toSorted((a, b) => a - b);
        const ms = [0.5, 0.99].map((part) => sorted[Math.floor(sorted.length * part)]);
        if (turn >= 0)
          turns[side].push({ rate: took.length / seconds, ms, usPerRequest: (own * 1000) / took.length });
      }
    }
  } finally {
    await client.stop?.();
  }
  const rates = (side) => turns[side].map(({ rate }) => rate);
  const found = ratios(rates('ours'), rates('obvious'));
  const middle = (side) => latency({ ms: [0, 1].map((n) => median(turns[side].map(({ ms }) => ms[n]))) });
  return [
    perSecond(median(rates('ours'))),
    perSecond(median(rates('obvious'))),
    median(found).toFixed(2),
    range(found),
    middle('ours'),
    middle('obvious'),
    `${Math.round(median(turns.ours.map(({ usPerRequest }) => usPerRequest)))} µs`,
  ];
}

function openPython() {
  const { status } = spawnSync('python3', ['-c', 'import httpx'], { stdio: 'ignore' });
  if (status !== 0) return 'It needs python3 with httpx: pip install httpx.';
  return { run: (load) => runProgram('python3', [file('client.py')], load) };
}

function openGo(folder) {
  if (spawnSync('go', ['version']).status !== 0) return 'It needs Go.';
  const program = path.join(folder, 'client');
  execFileSync('go', ['build', '-o', program, file('client.go')], { stdio: ['ignore', 'ignore', 'inherit'] });
  return { run: (load) => runProgram(program, [], load) };
}

async function runProgram(command, args, load) {
  const all = [...args, JSON.stringify(load)];
  const { stdout } = await promisify(execFile)(command, all, { maxBuffer: 1e9 });
  return JSON.parse(stdout);
}
