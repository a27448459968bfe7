// The cost of an installation that nobody uses: CPU time and memory with thousands of sleeping projects, and how long it
// takes to start with them.
// npm run bench -- idle [--quick] [--projects 3000] [--seconds 60] [--rest 1300] [--data folder] [--write]. `rest`: the
// seconds between the start and the first measurement. With --data the projects are kept there for the next run.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openInstallation } from './installation.mjs';
import { readOptions } from './options.mjs';
import { cpuMs, memoryMb, residentMb } from './processes.mjs';
import { report } from './report.mjs';

const options = readOptions({
  projects: { quick: 50, full: 3_000 },
  seconds: { quick: 5, full: 60 },
  rest: { quick: 0, full: 1_300, what: 'seconds between the start and the first measurement' },
  data: null,
});
const { projects: wanted, seconds, rest } = options;
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-idle-'));
const data = options.data ? path.resolve(options.data) : path.join(folder, 'data');
// The first base backup of so many projects takes minutes, and is not part of being idle.
const installation = await openInstallation(data, { spares: 5, env: { ROWHOUSE_BACKUP_URL: 'off' } });
const rows = [];
let made = 0;

try {
  await installation.start();
  const before = await countProjects();
  made = Math.max(0, wanted - before);
  await makeProjects(before, wanted);
  const count = before + made;
  await installation.sparesReady();
  await installation.settle();
  await installation.stop();
  rows.push([`start with ${count} projects`, ms(await installation.start()), goalAt(10_000, '≤ 3 s')]);
  await installation.sparesReady();
  await sleep(10_000);
  if (rest > 0) {
    await measure('soon after the start');
    await sleep(rest * 1000);
  }
  await measure(`${rest + 10} s after the start`, '≤ 1 %', '≤ 150 MB');
  // Last: a crash takes PostgreSQL's statistics, without which autovacuum has nothing to do.
  await installation.crash({ keepPostgres: true });
  rows.push(['start after kill -9 of the service', ms(await installation.start()), goalAt(10_000, '≤ 3 s')]);
  await installation.crash();
  rows.push(['start after kill -9 of both', ms(await installation.start()), '']);
} finally {
  await installation.stop();
  rmSync(folder, { recursive: true, force: true });
}
report('idle', ['what', 'measured', 'goal'], rows, options.write, {
  notes: [
    'CPU time of all processes, as a share of one core. Memory: private pages, plus the share of shared pages; resident memory counts these in full.',
    `Each project has a table with a row. ${made === 0 ? 'All are of an earlier run' : `${made} of them were made right before`}. Backups are off.`,
  ],
});

async function measure(when, cpuGoal = '', memoryGoal = '') {
  const both = [installation.pid(), installation.postmaster()];
  const before = cpuMs(...both);
  const began = performance.now();
  await sleep(seconds * 1000);
  const after = cpuMs(...both);
  const tookMs = performance.now() - began;
  const [own, postgres] = ['service', 'postgres'].map((part) => (after[part] - before[part]) / tookMs);
  const percent = (share) => `${(share * 100).toFixed(2)} %`;
  const memory = memoryMb(...both);
  const resident = residentMb(installation.pid());
  rows.push(
    [
      `CPU ${when}: all (service + PostgreSQL)`,
      `${percent(own + postgres)} (${percent(own)} + ${percent(postgres)})`,
      goalAt(3_000, cpuGoal),
    ],
    [
      `memory of the service ${when} (resident)`,
      `${memory.service.toFixed(0)} MB (${resident.toFixed(0)} MB)`,
      goalAt(3_000, memoryGoal),
    ],
    [`memory of PostgreSQL ${when}`, `${memory.postgres.toFixed(0)} MB`, ''],
  );
}

async function countProjects() {
  let count = 0;
  for (let page = 1; ; page++) {
    const { projects, has_more: more } = await installation.call('GET', `/projects?limit=100&page=${page}`);
    count += projects.length;
    if (!more) return count;
  }
}

async function makeProjects(from, to) {
  const { call } = installation;
  let next = from;
  const maker = async () => {
    while (next < to) {
      const slug = `idle-${next++}-${Date.now().toString(36)}`;
      await call('POST', '/projects', { name: slug, slug });
      await call('POST', `/projects/${slug}/query`, {
        query: 'create table notes as select 1::bigint as id, now() as at',
      });
    }
  };
  await Promise.all([maker(), maker(), maker()]);
}

function goalAt(size, goal) {
  return wanted === size ? goal : '';
}

function ms(value) {
  return `${value.toFixed(0)} ms`;
}
