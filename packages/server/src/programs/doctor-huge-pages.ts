// Checks whether enough huge pages are reserved for an embedded PostgreSQL with many databases. All PostgreSQL processes share
// its memory, and with huge pages the kernel manages fewer pages of it.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Check, ok, warning } from '../lib/check.ts';
import {
  connectionsByMemory,
  machineMemoryMb,
  sharedMemoryBy,
} from '../servers/embedded/embedded-settings.ts';
import type { Config } from '../settings/config.ts';

type Installation = { config: Pick<Config, 'keptConnections'>; cluster: string };

/** With fewer databases, the gain is small. */
const manyDatabases = 1_000;
/** Other programs cannot use reserved memory, so the check asks for no more than this part of it. */
const largestPart = 0.25;

export function checkHugePages({ config, cluster }: Installation): Check[] {
  if (process.platform !== 'linux') return [];
  const memoryMb = machineMemoryMb();
  const sharedMemoryMb = sharedMemoryBy(memoryMb, config.keptConnections ?? connectionsByMemory(memoryMb));
  if (sharedMemoryMb > memoryMb * largestPart) return [];
  return judgeHugePages(countDatabases(cluster), sharedMemoryMb, readFileSync('/proc/meminfo', 'utf8'));
}

/** `meminfo`: the content of /proc/meminfo. */
export function judgeHugePages(databases: number, neededMb: number, meminfo: string): Check[] {
  if (databases < manyDatabases) return [];
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(meminfo)?.[1] ?? 0);
  const [pages, pageKb] = [read('HugePages_Total'), read('Hugepagesize')];
  // The kernel does not support huge pages.
  if (pageKb === 0) return [];
  const needed = Math.ceil((neededMb * 1024) / pageKb);
  if (pages >= needed)
    return [ok('huge pages', `${pages} reserved; PostgreSQL uses them from its next start on`)];
  return [
    warning(
      'huge pages',
      `${databases} databases, and ${pages} huge pages of ${pageKb} kB reserved`,
      `Reserve them on the host, then restart Rowhouse: sysctl -w vm.nr_hugepages=${needed}. To keep them after a reboot, write vm.nr_hugepages=${needed} to /etc/sysctl.d/rowhouse.conf.`,
    ),
  ];
}

function countDatabases(cluster: string): number {
  const folder = path.join(cluster, 'base');
  return existsSync(folder) ? readdirSync(folder).filter((name) => /^\d+$/.test(name)).length : 0;
}
