// Three servers behind one API process: what a request costs, compared with three services that have one server each (in
// turn, and under load at the same time) and with three projects on one server; and with --before <folder>, one server
// compared with an earlier version (a compiled checkout).
// npm run bench -- fleet [--quick] [--seconds 5] [--turns 7] [--connections 8] [--before <folder>] [--write]. Needs wrk.
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { lastId, makeTables, statements } from './items.mjs';
import { median, needTools, queryRequest, ratios, startService, stop, wrkTogether } from './load.mjs';
import { readOptions } from './options.mjs';
import { cpuMs, postmasterOf } from './processes.mjs';
import { perSecond, range, report } from './report.mjs';

const { seconds, turns, connections, before, write } = readOptions({
  seconds: { quick: 1, full: 5 },
  turns: { quick: 1, full: 7 },
  connections: 8,
  before: { quick: null, full: null, what: 'the compiled checkout of an earlier version' },
});
needTools('wrk');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-fleet-load-'));
const { startEmbedded } = await import('../packages/server/dist/servers/embedded/embedded.js');
const loads = {
  query: (project) => queryRequest(statements.Q1, { target: `'${pathOf(project)}/query'` }),
  insert: (project) => queryRequest(statements.Q4, { target: `'${pathOf(project)}/query'` }),
  page: (project) =>
    `return wrk.format('GET', '${pathOf(project)}/tables/items?limit=50&id=gte.' .. math.random(1, ${lastId}), headers)`,
};
const pathOf = ({ url }) => new URL(url).pathname;
const busy = [];
const stops = [];

const sum = (list) => list.reduce((total, one) => total + one, 0);

/** wrk asks the projects of a service in turn. */
function loadOf({ port, projects }, load) {
  const request = projects
    .map(
      (project, index) =>
        `if at == ${index} then headers['x-api-key'] = '${project.key}' ${loads[load](project)} end`,
    )
    .join(' ');
  return [
    `http://127.0.0.1:${port}`,
    {
      before: 'local turn = 0',
      request: `turn = turn + 1 local at = turn % ${projects.length} ${request}`,
      connections: connections * projects.length,
      seconds,
    },
  ];
}

function spentMs({ pid, postmasters: [first, ...others] }) {
  const { service, postgres } = cpuMs(pid, first);
  return service + postgres + sum(others.map((one) => cpuMs(null, one).postgres));
}

/** Load on these services at once. Returns the rate, and the CPU time of a request in microseconds. */
async function measure(services, load) {
  const spent = () => sum(services.map(spentMs));
  const startedAt = spent();
  const results = await wrkTogether(
    folder,
    services.map((service) => loadOf(service, load)),
  );
  const requests = sum(results.map((result) => result.requests));
  return { rate: sum(results.map(({ rate }) => rate)), us: ((spent() - startedAt) * 1000) / requests };
}

/** A service with one server. */
async function startOne(name, script) {
  mkdirSync(path.join(folder, name));
  const service = await startService(path.join(folder, name), script);
  stops.push(() => stop(service));
  for (const statement of makeTables) await service.query(statement);
  const { pid, port, data } = service;
  return { pid, port, service, postmasters: [postmasterOf(data)], projects: [service] };
}

/** A service with three servers, and a project on each. */
async function startFleet() {
  const fleet = await startOne('fleet');
  for (const name of ['db2', 'db3']) {
    const dataFolder = path.join(folder, name);
    mkdirSync(dataFolder, { mode: 0o700 });
    const embedded = await startEmbedded({
      dataFolder,
      masterKey: randomBytes(32),
      connections: 100,
      reserveBytes: 0,
      say: () => {},
      onEvent: () => {},
    });
    stops.push(embedded.stop);
    const { user, password, host, port } = embedded.address;
    const address = `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/postgres`;
    await fleet.service.asAccount('POST', '/servers', { name, address });
    const project = await fleet.service.makeProject(name, 4000, { server: name });
    for (const statement of makeTables) await project.query(statement);
    fleet.postmasters.push(postmasterOf(dataFolder));
    fleet.projects.push(project);
  }
  return fleet;
}

/** A service with three projects on its only server. */
async function startShared() {
  const shared = await startOne('shared');
  for (const name of ['p2', 'p3']) {
    const project = await shared.service.makeProject(name);
    for (const statement of makeTables) await project.query(statement);
    shared.projects.push(project);
  }
  return shared;
}

/** All sides in turn, several times. The first turn is not counted. */
async function compare(sides, load) {
  const found = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  for (let turn = -1; turn < turns; turn++) {
    busy.push(loadavg()[0]);
    for (const [name, side] of Object.entries(sides)) {
      const result = await measure(side, load);
      if (turn >= 0) found[name].push(result);
    }
  }
  return found;
}

const column = (list, name) => list.map((one) => one[name]);
const header = [
  'load',
  'three servers: /s',
  'beside it: /s',
  'CPU µs',
  'beside it: CPU µs',
  'ratio',
  'min–max',
];
const [rows, atOnce, sharing] = [[], [], []];
const tables = [
  {
    title: 'Compared with three services with one server each, under load at the same time',
    header,
    rows: atOnce,
  },
  { title: 'Compared with three projects on one server', header, rows: sharing },
];
try {
  const fleet = await startFleet();
  const shared = await startShared();
  const alone = [];
  for (const name of ['one', 'two', 'three']) alone.push(await startOne(name));
  const [one, two, three] = alone;
  for (const load of Object.keys(loads)) {
    const sides = {
      together: [fleet],
      one: [one],
      two: [two],
      three: [three],
      shared: [shared],
      parallel: alone,
    };
    const { together, shared: ofOneServer, parallel, ...separate } = await compare(sides, load);
    const mean = together.map(
      (_, turn) => sum(Object.values(separate).map((list) => list[turn].us)) / alone.length,
    );
    const fleetUs = column(together, 'us');
    const cost = ratios(fleetUs, mean);
    rows.push([
      ...[load, perSecond(median(column(together, 'rate'))), median(fleetUs).toFixed(0)],
      ...[median(mean).toFixed(0), median(cost).toFixed(2), range(cost), '≤ 1.10'],
    ]);
    for (const [found, list] of [
      [atOnce, parallel],
      [sharing, ofOneServer],
    ]) {
      const times = ratios(fleetUs, column(list, 'us'));
      found.push([
        ...[load, perSecond(median(column(together, 'rate'))), perSecond(median(column(list, 'rate')))],
        ...[median(fleetUs).toFixed(0), median(column(list, 'us')).toFixed(0)],
        ...[median(times).toFixed(2), range(times)],
      ]);
    }
  }
  if (before) {
    const earlier = await startOne('earlier', path.resolve(before, 'packages/server/dist/main.js'));
    const compared = [];
    for (const load of Object.keys(loads)) {
      const { now, past } = await compare({ now: [one], past: [earlier] }, load);
      const speed = ratios(column(now, 'rate'), column(past, 'rate'));
      const cost = ratios(column(now, 'us'), column(past, 'us'));
      compared.push([
        ...[load, perSecond(median(column(now, 'rate'))), perSecond(median(column(past, 'rate')))],
        ...[median(speed).toFixed(2), range(speed), median(cost).toFixed(2), '≥ 0.97'],
      ]);
    }
    tables.push({
      title: 'One server, before and after',
      header: ['load', 'requests/s', 'before', '× before', 'min–max', 'CPU × before', 'goal'],
      rows: compared,
    });
  }
} finally {
  for (const end of stops.reverse()) await end();
  rmSync(folder, { recursive: true, force: true });
}
report(
  'fleet',
  [
    'load',
    'three servers: requests/s',
    'CPU µs a request',
    'one server each: CPU µs',
    'ratio',
    'min–max',
    'goal',
  ],
  rows,
  write,
  {
    tables,
    notes: [
      `One API process with three servers and a project on each, ${connections} connections for each project, compared with three services with one server each that take turns. CPU: the service and all its PostgreSQL processes. wrk is not counted.`,
      `The load average of the machine before each turn was ${range(busy, 1)}. The benchmark itself is part of it.`,
    ],
  },
);
