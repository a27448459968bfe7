// What is lost if everything is killed: the service and PostgreSQL, while rows are written. The installation is restored from its
// backups alone, in a folder and in S3.
// npm run bench -- rpo [--runs 10] [--quick] [--write]. S3 is versitygw, which Go builds if it is not installed.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { measureRpo, startS3 } from './backup-rpo.mjs';
import { median } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const { runs, write } = readOptions({ runs: { quick: 2, full: 10 } });
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-rpo-'));
const inFolder = { name: 'folder', url: (run) => `file:${path.join(folder, `backups-${run}`)}` };
const rows = [];

function note(name, lost, goal) {
  rows.push([name, String(lost.length), median(lost).toFixed(2), Math.max(...lost).toFixed(2), goal]);
}

const s3 = await startS3(folder);
try {
  note('a folder', await measureRpo(folder, runs, inFolder), '≤ 2 s');
  if (s3) note('S3 (versitygw on this machine)', await measureRpo(folder, runs, s3), '≤ 5 s');
  else console.error('S3 is not measured: versitygw is not installed, and Go cannot build it.');
} finally {
  await s3?.stop();
  rmSync(folder, { recursive: true, force: true });
}
report('rpo', ['backups in', 'runs', 'median, s', 'most, s', 'goal'], rows, write, {
  notes: [
    'Four writers insert row after row. The service and PostgreSQL are killed at a random moment, and the installation is restored from its backups alone. The figure is the age of the oldest acknowledged row that is missing.',
  ],
});
