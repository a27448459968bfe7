// Reads what Linux reports about processes: memory, CPU time, open files, children. Only the owner of a process and root
// can read all of it.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';

/** The process id of the embedded PostgreSQL of a data folder. */
export function postmasterOf(dataFolder) {
  return Number(readFileSync(path.join(dataFolder, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

/** The ids of a process and of all its descendants. */
export function familyOf(pid) {
  const children = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const parent = parentOf(name);
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const family = [];
  for (const next = [pid]; next.length > 0; ) {
    const one = next.pop();
    family.push(one);
    next.push(...(children.get(one) ?? []));
  }
  return family;
}

/** Memory of the service and of PostgreSQL in MB, each with its children. Shared pages are counted once. */
export function memoryMb(service, postmaster) {
  return ofBoth(service, postmaster, shareMb);
}

/** The result of `run`, with the CPU time it cost the service (`own`) and PostgreSQL (`postgres`). */
export function withCpuMs(service, postmaster, run) {
  const before = cpuMs(service, postmaster);
  const result = run();
  const after = cpuMs(service, postmaster);
  return { ...result, own: after.service - before.service, postgres: after.postgres - before.postgres };
}

/**
 * The result of `run`, with the parts of its time in which the service's main thread waited for a core (`waited`), and in which the
 * host ran something else on the cores of this machine (`stolen`).
 */
export function withWaits(service, run) {
  const began = performance.now();
  const before = [waitMs(service), stolenMs()];
  const result = run();
  const took = performance.now() - began;
  const after = [waitMs(service), stolenMs()];
  const [waited, stolen] = after.map((ms, n) => (ms - before[n]) / took);
  return { ...result, waited, stolen: stolen / availableParallelism() };
}

/**
 * The result of `run`, during which the service's main thread has real-time priority. It shows how much is lost by waiting for a
 * core. The service does not offer it: under a flood of requests, PostgreSQL and its guard would have to wait.
 */
export function withRealTime(service, run) {
  setPriority(service, '--rr', '1');
  try {
    return run();
  } finally {
    setPriority(service, '--other', '0');
  }
}

/** Whether `withRealTime` works here. */
export function mayBeRealTime() {
  return process.getuid?.() === 0 && spawnSync('chrt', ['--rr', '1', 'true']).status === 0;
}

/** The processes and threads that it starts meanwhile get the usual priority. */
function setPriority(service, policy, priority) {
  const args = ['--reset-on-fork', policy, '--pid', priority, String(service)];
  const { status, stderr } = spawnSync('chrt', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`chrt: ${stderr}`);
}

/** Ready to run, but not running. */
function waitMs(pid) {
  return Number(read(`${pid}/task/${pid}`, 'schedstat').split(' ')[1] ?? 0) / 1e6;
}

/** The time that the hypervisor took from all cores together. */
function stolenMs() {
  return Number(readFileSync('/proc/stat', 'utf8').split(/\s+/)[8]) * 10;
}

/** CPU time of both in milliseconds, including children that have ended. */
export function cpuMs(service, postmaster) {
  return ofBoth(service, postmaster, cpuMsOf);
}

/**
 * CPU time of the kernel's own threads in milliseconds. Some of them move pages or track which pages are used. That takes longer
 * if more processes share a page. 0 in a container, where these threads are not visible.
 */
export function kernelMs() {
  return read(kernel, 'comm').trim() === 'kthreadd' ? sum(familyOf(kernel).map(cpuMsOf)) : 0;
}
const kernel = 2;

/** The CPU time of one process. */
export function cpuMsOf(pid) {
  const fields = read(pid, 'stat').split(') ')[1]?.split(' ') ?? [];
  return sum(fields.slice(11, 15).map(Number)) * 10;
}

/** PostgreSQL may be a child of the service. `service` is null if there is no service. */
function ofBoth(service, postmaster, measure) {
  const postgres = new Set(familyOf(postmaster));
  const own = (service === null ? [] : familyOf(service)).filter((pid) => !postgres.has(pid));
  return { service: sum(own.map(measure)), postgres: sum([...postgres].map(measure)) };
}

export function residentMb(pid) {
  return Number(/^VmRSS:\s+(\d+)/m.exec(read(pid, 'status'))?.[1] ?? 0) / 1024;
}

/** The most resident memory since `forgetPeak`. Linux keeps it, so nothing is missed between two samples. */
export function peakMb(pid) {
  return Number(/^VmHWM:\s+(\d+)/m.exec(read(pid, 'status'))?.[1] ?? 0) / 1024;
}

export function forgetPeak(pid) {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Memory of the service's other processes. Pages that they share with it are not counted again. */
export function helpersMb(service, postmaster) {
  const postgres = new Set(familyOf(postmaster));
  const helpers = familyOf(service).filter((pid) => pid !== service && !postgres.has(pid));
  return sum(helpers.map(privateMb));
}

export function openFiles(pid) {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}

/** Private pages, plus the proportional share of shared pages. */
function shareMb(pid) {
  const found = /^Pss:\s+(\d+)/m.exec(read(pid, 'smaps_rollup'));
  return found ? Number(found[1]) / 1024 : residentMb(pid);
}

function privateMb(pid) {
  const found = read(pid, 'smaps_rollup').matchAll(/^Private_\w+:\s+(\d+)/gm);
  return sum([...found].map(([, kb]) => Number(kb))) / 1024;
}

function parentOf(pid) {
  const stat = read(pid, 'stat').split(') ')[1];
  return stat ? Number(stat.split(' ')[1]) : null;
}

/** CPU time that all other processes of the machine have taken, in milliseconds: it shows whether a run was alone. */
export function othersMs(pid, postmaster) {
  const [, user, nice, system] = readFileSync('/proc/stat', 'utf8').split(/\s+/, 4);
  const { service, postgres } = cpuMs(pid, postmaster);
  return (Number(user) + Number(nice) + Number(system)) * 10 - service - postgres;
}

/** Empty if the process has ended in the meantime. */
function read(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
