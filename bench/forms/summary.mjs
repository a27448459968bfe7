// The tables of the suite `forms`: ratios with their goals, latency, processor time; and what the documentation quotes of them.
// Bearer and row security come first.
import { latency, median, ratios } from '../load.mjs';
import { perSecond, range } from '../report.mjs';

const slowestOfMedian = 3;
const cpuOfBase = 1.6;
const quoted = [
  'query, Bearer',
  'page by id, Bearer',
  'insert, Bearer',
  'query, X-API-Key, table with row security',
  'page by id as a user (own rows), from a browser',
  'page by id as a user (rows of teams), from a browser',
  'insert as a user, from a browser',
  'update by id',
  'batch of two reads',
  'insert with Idempotency-Key',
];

/** `measured`: the turns of each form, by its name. */
export function summarize(forms, measured, clientRows) {
  const missed = [];
  const rates = (name, side) => measured.get(name)?.map((turn) => turn[side].rate);
  const mark = (name, goal, value, isReached) => {
    if (goal && !isReached) missed.push([name, value, goal]);
    return goal;
  };
  const atLeast = (name, list, least) => {
    const value = median(list).toFixed(2);
    const goal = least === undefined ? '' : `≥ ${least}`;
    return [value, range(list), mark(name, goal, value, Number(value) >= least)];
  };
  const usOf = (name) => {
    const turns = measured.get(name);
    if (!turns) return null;
    const sum = (read) => turns.reduce((total, { ours }) => total + read(ours), 0);
    return (sum(({ own }) => own) * 1000) / sum(({ requests }) => requests);
  };
  const compared = (form) => {
    const own = rates(form.name, 'ours');
    const base = rates(form.base, 'ours');
    return [
      form.name,
      ...['ours', 'theirs'].map((side) => perSecond(median(rates(form.name, side)))),
      ...atLeast(`${form.name}: × obvious`, ratios(own, rates(form.name, 'theirs')), form.ofObvious),
      ...(base ? atLeast(`${form.name}: × X-API-Key`, ratios(own, base), form.ofBase) : ['', '', '']),
    ];
  };
  const slowest = (form) => {
    const ms = (side) => [0, 1].map((n) => median(measured.get(form.name).map((turn) => turn[side].ms[n])));
    const [ours, theirs] = [ms('ours'), ms('theirs')];
    const times = ([p50, p99]) => (p99 / p50).toFixed(1);
    const us = usOf(form.name);
    const base = usOf(form.base);
    const cpu = base ? (us / base).toFixed(2) : '';
    const goal = `≤ ${slowestOfMedian}`;
    const cpuGoal = form.asUser && base ? `≤ ${cpuOfBase}` : '';
    return [
      form.name,
      latency({ ms: ours }),
      times(ours),
      mark(`${form.name}: p99 × p50`, goal, times(ours), Number(times(ours)) <= slowestOfMedian),
      latency({ ms: theirs }),
      times(theirs),
      `${Math.round(us)} µs`,
      cpu,
      mark(`${form.name}: CPU × X-API-Key`, cpuGoal, cpu, Number(cpu) <= cpuOfBase),
    ];
  };
  const sorted = forms.toSorted((a, b) => rank(a.name) - rank(b.name));
  const rows = sorted.map(compared);
  const tables = [
    {
      title: `Latency and processor time`,
      header: [
        ...['', 'ours: p50 / p99 ms', '×', 'goal', 'obvious: p50 / p99 ms', '×'],
        ...['our CPU per request', '× X-API-Key', 'goal'],
      ],
      rows: sorted.map(slowest),
    },
  ];
  if (clientRows.length > 0)
    tables.push({
      title: 'Real clients',
      header: [
        ...['', 'ours /s', 'obvious /s', '× obvious', 'min–max'],
        ...['ours: p50 / p99 ms', 'obvious: p50 / p99 ms', 'our CPU per request'],
      ],
      rows: clientRows,
    });
  if (missed.length > 0)
    tables.push({
      title: 'Goals that this run did not reach',
      header: ['', 'measured', 'goal'],
      rows: missed,
    });
  const header = [
    ...['', 'ours /s', 'obvious /s', '× obvious', 'min–max', 'goal'],
    ...['× X-API-Key', 'min–max', 'goal'],
  ];
  return { header, rows, tables, ...quotes(rows) };
}

/** Bearer first, then row security, then the others as they come. */
function rank(name) {
  if (/, Bearer$/.test(name)) return 0;
  return /row security|as a user/.test(name) ? 1 : 2;
}

/** A table for docs/performance.md and a sentence for the README, or nothing if a form is missing. */
function quotes(rows) {
  const times = new Map(rows.map(([name, , , ratio]) => [name, ratio]));
  if (!quoted.every((name) => times.has(name))) return {};
  const table = [
    '| form of the request | × the obvious program |',
    '| --- | --- |',
    ...quoted.map((name) => `| ${name} | ${times.get(name)} |`),
  ].join('\n');
  const [query, page, insert] = [quoted[0], quoted[4], quoted[6]].map((name) => times.get(name));
  return {
    docs: `Requests per second, as a multiple of fastify and pg doing the same work: for users, they verify the token, begin, set role and claims, run and commit. [All forms](../bench/RESULTS.md#forms) have their latency there.\n\n${table}`,
    sentence: `Measured against fastify and pg doing the same work: a query with \`Authorization: Bearer\` ${query} times as many a second, a page read by a signed-in user under row security ${page} times, an insert by one ${insert} times ([how](docs/performance.md)).`,
  };
}
