// Sign-in on a machine whose cores are all busy with statements, and statements beside a flood of sign-ins. The figures are for the
// report: what is asserted is that nobody starves.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { api } from '../../support/helpers.ts';
import {
  hashProcessesOf,
  launch,
  newAccountKey,
  type Running,
  usedDataFolder,
} from '../../support/process.ts';

const key = newAccountKey();
const password = 'violet anchor seven maple';
type Project = { slug: string; key: string };
/** It uses a core, and hardly any memory or disk. */
const computing =
  'select count(*) from generate_series(1, 30000) as a, generate_series(1, 1000000) as b where a * b % 7 = 3';
let service: Running;
let folder: string;
let loud: Project;
let quiet: Project;

beforeAll(async () => {
  folder = await usedDataFolder();
  service = await launch({ ROWHOUSE_DATA: folder, ROWHOUSE_ACCOUNT_KEY: key });
  [loud, quiet] = [await create('Loud'), await create('Quiet')];
  for (const project of [loud, quiet]) expect((await auth(project, 'signup')).status).toBe(201);
  // The hash process starts with the first hash, and a statement is parsed once.
  await query(quiet, 'select 1 as one');
}, 120_000);

async function create(name: string): Promise<Project> {
  const { status, body } = await service.call('POST', `${api}/projects`, { key, body: { name } });
  expect(status, JSON.stringify(body)).toBe(201);
  return { slug: body.project.slug, key: body.api_key };
}
const auth = (project: Project, how: string, email = 'ada@example.com') =>
  service.call('POST', `${api}/projects/${project.slug}/auth/${how}`, {
    key: project.key,
    body: { email, password },
  });
const query = ({ slug, key: own }: Project, text: string, timeout_ms = 60_000) =>
  service.call('POST', `${api}/projects/${slug}/query`, { key: own, body: { query: text, timeout_ms } });

async function times(count: number, act: () => Promise<{ status: number }>): Promise<number[]> {
  const took: number[] = [];
  for (let n = 0; n < count; n++) {
    const began = performance.now();
    const { status } = await act();
    expect(status).toBe(200);
    took.push(performance.now() - began);
  }
  return took.sort((one, other) => one - other);
}
const read = (file: string) => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};
const at = (sorted: number[], part: number) => sorted[Math.ceil(sorted.length * part) - 1] ?? Number.NaN;

/** NaN: it has ended. */
const niceOf = (pid: number) =>
  Number(/^\d+ \(.*\) (?:\S+ ){16}(-?\d+)/s.exec(read(`/proc/${pid}/stat`))?.[1] ?? Number.NaN);
const groupNiceOf = (pid: number) =>
  Number(/nice (-?\d+)/.exec(read(`/proc/${pid}/autogroup`))?.[1] ?? Number.NaN);
const hasAutogroups = read('/proc/sys/kernel/sched_autogroup_enabled').trim() === '1';

function processesOfPostgres(): number[] {
  const file = path.join(folder, 'postgres', 'postmaster.pid');
  const postmaster = Number(readFileSync(file, 'utf8').split('\n')[0]);
  const children = read(`/proc/${postmaster}/task/${postmaster}/children`).trim().split(' ').map(Number);
  expect(children.length).toBeGreaterThan(3);
  return [postmaster, ...children];
}

describe('beside heavy statements on every core', () => {
  it('people sign in', async () => {
    const idle = at(await times(5, () => auth(quiet, 'signin')), 0.5);
    const heavy = Array.from({ length: Math.min(8, 4 * availableParallelism()) }, () =>
      query(loud, computing, 25_000),
    );
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const busy = await times(7, () => auth(quiet, 'signin'));
    const groups = processesOfPostgres().map((pid) => ({
      title: read(`/proc/${pid}/cmdline`),
      nice: groupNiceOf(pid),
    }));
    console.log({
      heavy: heavy.length,
      idle,
      median: at(busy, 0.5),
      slowest: at(busy, 1),
      ratio: at(busy, 0.5) / idle,
    });
    expect(at(busy, 0.5) / idle).toBeLessThan(10);
    if (hasAutogroups) {
      const lowered = groups.filter(({ nice }) => nice === 10).map(({ title }) => title);
      expect(lowered.filter((title) => title.includes('SELECT')).length).toBeGreaterThanOrEqual(heavy.length);
      // A process that rests keeps its share: what it is asked next must not wait for those.
      expect(lowered.filter((title) => / idle\0*$/.test(title))).toEqual([]);
    }
    await Promise.all(heavy);
  }, 120_000);

  it.runIf(process.platform === 'linux')('PostgreSQL has the lower priority', async () => {
    const [hashing = 0] = hashProcessesOf(service.child.pid ?? 0);
    expect(niceOf(hashing)).toBe(niceOf(service.child.pid ?? 0));
    const unlike = processesOfPostgres().filter((pid) => ![5, Number.NaN].includes(niceOf(pid)));
    expect(unlike).toEqual([]);
  });

  it.runIf(hasAutogroups)('what computed has its share again soon after the last sign-in', async () => {
    const heavy = query(loud, computing, 20_000);
    const isLowered = () => processesOfPostgres().some((pid) => groupNiceOf(pid) === 10);
    await expect
      .poll(async () => (await auth(quiet, 'signin')).status === 200 && isLowered(), { timeout: 15_000 })
      .toBe(true);
    await expect.poll(isLowered, { timeout: 15_000 }).toBe(false);
    await heavy;
  });
});

it('beside a flood of sign-ins, statements are as quick as before', async () => {
  const ask = () => query(quiet, 'select 1 as one');
  await times(200, ask);
  const idle = await times(1_000, ask);
  let isOver = false;
  const statuses: number[] = [];
  const clients = Array.from({ length: 24 }, async (_, n) => {
    while (!isOver) {
      const { status } = await auth(loud, 'signin', `nobody${n}@example.com`);
      statuses.push(status);
      if (status === 429) await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  const beside = await times(2_000, ask).finally(() => {
    isOver = true;
  });
  await Promise.all(clients);
  const figures = { idle: [at(idle, 0.5), at(idle, 0.99)], beside: [at(beside, 0.5), at(beside, 0.99)] };
  const refused = statuses.filter((status) => status === 429).length;
  console.log(
    JSON.stringify({
      ...figures,
      ratio: at(beside, 0.99) / at(idle, 0.99),
      signIns: statuses.length - refused,
      refused,
    }),
  );
  expect(statuses.filter((status) => status === 401).length).toBeGreaterThan(0);
  expect(statuses.every((status) => status === 401 || status === 429)).toBe(true);
  expect(at(beside, 0.99) / Math.max(10, at(idle, 0.99))).toBeLessThan(10);
}, 120_000);
