// The tables, notes and plots of the comparison with peers.
import { median, ratios } from './load.mjs';
import { writePlot } from './plot.mjs';
import { perSecond, range, report } from './report.mjs';

const titles = {
  Q1: 'one row by key',
  Q2: '50 rows, starting at a key',
  Q3: '10,000 rows',
  Q4: 'insert of one row',
  page: 'the first page of a table, 50 rows',
  signup: 'sign-up',
  signin: 'sign-in',
};
export const workloads = Object.keys(titles);

/**
 * `results`: one entry per peer; `swept`: ours by number of connections; `created`: milliseconds of each new project;
 * `memory`: ours at the end, in MB, or null. `settings`: how it was measured, for the notes.
 */
export function reportPeers({ results, swept, created, memory }, { write, ...settings }) {
  const peerTable = {
    title: 'The peers',
    header: ['peer', 'versions', 'how', 'memory at rest', ''],
    rows: results.map(peerRow),
  };
  const sweepTable = {
    title: 'Ours, by the number of connections',
    header: ['', 'connections', '/s', 'spread', 'p50 / p99 / p99.9 ms', 'CPU: ours + PostgreSQL', 'refused'],
    rows: swept.map(sweepRow),
  };
  report(
    'peers',
    [
      '',
      'peer',
      'ours /s',
      'peer /s',
      '×',
      'spread of ×',
      'ours p50 / p99 / p99.9 ms',
      'peer p50 / p99 / p99.9 ms',
      'CPU per request: ours + PostgreSQL',
      'CPU per request: peer + PostgreSQL',
      'memory MB: ours / peer',
    ],
    resultRows(results),
    write,
    {
      tables: [peerTable, sweepTable].filter((table) => table.rows.length > 0),
      notes: notesOf(settings, memory, created),
      plots: write ? [...drawRatios(results), ...drawSweep(swept)] : [],
    },
  );
}

const ratesOf = (turns) => turns.map(({ rate }) => rate);
const refusedOf = (turns) => turns.reduce((sum, { refused }) => sum + refused, 0);
const rateOf = (turns) =>
  perSecond(median(ratesOf(turns))) + (refusedOf(turns) > 0 ? ` (${refusedOf(turns)} refused)` : '');
const middleOf = (turns, read) => median(turns.map(read));
const us = (value) => (value >= 10_000 ? `${(value / 1000).toFixed(1)} ms` : `${Math.round(value)} µs`);
const latencyOf = (turns) =>
  turns[0].ms
    ? [0, 1, 2].map((n) => Number(middleOf(turns, ({ ms }) => ms[n]).toPrecision(3))).join(' / ')
    : '–';
const costOf = (turns, hasOwn) =>
  `${hasOwn ? us(middleOf(turns, (turn) => turn.ownUs)) : '–'} + ${us(middleOf(turns, (turn) => turn.postgresUs))}`;

function resultRows(results) {
  const rows = results.flatMap(({ name, measured }) =>
    Object.entries(measured).map(([workload, { ours: mine, peer: theirs }]) => {
      const list = ratios(ratesOf(mine), ratesOf(theirs));
      const mb = theirs.at(-1).memory;
      return [
        workload,
        name,
        rateOf(mine),
        rateOf(theirs),
        median(list).toFixed(2),
        range(list),
        latencyOf(mine),
        latencyOf(theirs),
        costOf(mine, true),
        costOf(theirs, mb !== null),
        `${Math.round(mine.at(-1).memory)} / ${mb === null ? '–' : Math.round(mb)}`,
      ];
    }),
  );
  return rows.sort((a, b) => workloads.indexOf(a[0]) - workloads.indexOf(b[0]));
}

function peerRow({ name, what, passwords = '', versions, measured, problems, idleMb }) {
  return [
    name,
    versions.join(', ') || '–',
    [what, passwords && `passwords: ${passwords}`].filter(Boolean).join('; '),
    idleMb ? `${Math.round(idleMb)} MB` : '–',
    outcomeOf(measured, problems),
  ];
}

function outcomeOf(measured, problems) {
  if (problems.length === 0) return 'ran';
  const isPart = Object.keys(measured).length > 0;
  return `${isPart ? 'ran in part' : 'did not run'}: ${problems.join('; ')}`;
}

function sweepRow({ workload, at, turns }) {
  return [
    workload,
    String(at),
    perSecond(median(ratesOf(turns))),
    range(ratesOf(turns), 0),
    latencyOf(turns),
    costOf(turns, true),
    String(refusedOf(turns)),
  ];
}

function notesOf({ quick, seconds, repeats, connections, signInClients }, memory, created) {
  return [
    quick
      ? `Quick run: one turn of ${seconds} s each, without warm-up, Q3 with 4 connections. It shows that everything runs, not how fast. Add --install to include all peers.`
      : `Ours and the peer run in turns: ${repeats} each, after one that is not counted. A turn takes ${seconds} s, or longer for a slow peer. ${connections} connections, ${signInClients} for sign-up and sign-in. × is the median of the ratios of neighbouring turns.`,
    'Each PostgreSQL peer has a database on the PostgreSQL server of our service; SQLite peers embed theirs. Ours checks a key, isolates projects and enforces limits.',
    'Sign-up and sign-in compare the cost of the password hash that each program has chosen (ours: PBKDF2-SHA256, 600,000 rounds), not the speed of the programs.',
    ...(memory === null ? [] : [`Our memory at the end: ${Math.round(memory)} MB.`]),
    ...(created.length === 0
      ? []
      : [
          `Creating a project takes ${median(created).toFixed(1)} ms (median of ${created.length}, one after another; maximum ${Math.max(...created).toFixed(1)} ms).`,
        ]),
  ];
}

function drawRatios(results) {
  return workloads.flatMap((workload) => {
    const bars = results
      .filter(({ measured }) => measured[workload])
      .map(({ name, measured: { [workload]: turns } }) => {
        const list = ratios(ratesOf(turns.ours), ratesOf(turns.peer));
        return { label: name, value: median(list), low: Math.min(...list), high: Math.max(...list) };
      });
    if (bars.length === 0) return [];
    bars.sort((a, b) => a.value - b.value);
    return writePlot(`peers-${workload.toLowerCase()}`, {
      title: `${workload}: ${titles[workload]}`,
      x: { label: 'requests per second: ours / the peer (line: equal)', log: true },
      bars,
      mark: 1,
    });
  });
}

function drawSweep(swept) {
  if (swept.length === 0) return [];
  const byWorkload = groupBy(swept);
  const lines = (read) =>
    [...byWorkload].map(([name, list]) => ({ name, points: list.map((one) => [one.at, read(one.turns)]) }));
  const [title, x] = ['Ours, by the number of connections', { label: 'connections', log: true }];
  return [
    writePlot('sweep-rate', {
      title,
      x,
      y: { label: 'requests per second', log: true },
      series: lines((turns) => median(ratesOf(turns))),
    }),
    writePlot('sweep-p99', {
      title,
      x,
      y: { label: 'p99, ms', log: true },
      series: lines((turns) => middleOf(turns, ({ ms }) => ms[1])),
    }),
  ];
}

/** Groups by workload. Node.js 20 has no Map.groupBy. */
function groupBy(list) {
  const groups = new Map();
  for (const one of list) groups.set(one.workload, [...(groups.get(one.workload) ?? []), one]);
  return groups;
}
