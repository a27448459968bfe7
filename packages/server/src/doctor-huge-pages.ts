// Whether the machine has the huge pages that an embedded PostgreSQL with many databases gains from. The kernel then has fewer
// pages to manage that all of its processes share.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Check, ok, warning } from './check.ts';
import { embeddedSettings, machineMemoryMb } from './engine/embedded-settings.ts';

/** With fewer databases, the gain is small. */
const manyDatabases = 1_000;
/** In addition to the shared buffers: locks, and what PostgreSQL keeps for each connection. */
const otherMb = 512;

export function checkHugePages({ cluster }: { cluster: string }): Check[] {
  if (process.platform !== 'linux') return [];
  const { options } = embeddedSettings(
    { memoryMb: machineMemoryMb(), diskMb: 0, platform: process.platform },
    0,
    0,
  );
  return judgeHugePages(
    countDatabases(cluster),
    Number.parseInt(options.shared_buffers ?? '', 10) + otherMb,
    readFileSync('/proc/meminfo', 'utf8'),
  );
}

/** `meminfo`: the content of /proc/meminfo. */
export function judgeHugePages(databases: number, neededMb: number, meminfo: string): Check[] {
  if (databases < manyDatabases) return [];
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(meminfo)?.[1] ?? 0);
  const [pages, pageKb] = [read('HugePages_Total'), read('Hugepagesize')];
  // The kernel has none.
  if (pageKb === 0) return [];
  const needed = Math.ceil((neededMb * 1024) / pageKb);
  if (pages >= needed) return [ok('huge pages', `${pages} reserved`)];
  return [
    warning(
      'huge pages',
      `${databases} databases, and ${pages} huge pages of ${pageKb} kB reserved`,
      `Reserve them, then restart Rowhouse: sysctl -w vm.nr_hugepages=${needed}. To keep them after a reboot, write vm.nr_hugepages=${needed} to /etc/sysctl.d/rowhouse.conf.`,
    ),
  ];
}

function countDatabases(cluster: string): number {
  try {
    return readdirSync(path.join(cluster, 'base')).filter((name) => /^\d+$/.test(name)).length;
  } catch {
    // There is no cluster yet.
    return 0;
  }
}
