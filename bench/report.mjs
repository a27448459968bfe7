// Prints a benchmark's table and, when asked to, puts it into RESULTS.md in place of its last one; how figures are shown.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import path from 'node:path';
import { writePlot } from './plot.mjs';

/**
 * `more`: what follows the table: `notes`, a list of sentences; `tables`, [{ title, header, rows }]; `plots`, names of
 * files beside RESULTS.md; `bars`, { column, unit, label, mark }: a column of the table that is drawn, with the spread if
 * that stands in the next one.
 */
export function report(name, header, rows, write, { notes = [], tables = [], plots = [], bars } = {}) {
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim() || process.arch}, ${memory}, Node ${process.versions.node}`;
  const date = new Date().toISOString().slice(0, 10);
  const parts = [
    `## ${name}`,
    `\`${commandOf(name)}\`, ${date}, commit ${commit}, ${machine}`,
    tableOf(header, rows),
    ...tables.flatMap((table) => [`### ${table.title}`, tableOf(table.header, table.rows)]),
    ...(notes.length > 0 ? [notes.map((note) => `- ${note}`).join('\n')] : []),
    ...(bars && write ? [...plots, drawColumn(name, header, rows, bars)] : plots).map(
      (file) => `![${path.basename(file, '.svg')}](${file})`,
    ),
  ];
  const section = `${parts.join('\n\n')}\n`;
  console.log(section);
  if (!write) return;
  const file = path.resolve(import.meta.dirname, 'RESULTS.md');
  const before = existsSync(file)
    ? readFileSync(file, 'utf8')
    : '# Results\n\nThe last run of each benchmark. Only ratios within one run carry over to another machine.\n';
  const others = before.split(/^(?=## )/m).filter((part) => !part.startsWith(`## ${name}\n`));
  const [head, ...sections] = others;
  sections.push(section);
  sections.sort();
  writeFileSync(file, `${[head.trimEnd(), ...sections.map((part) => part.trimEnd())].join('\n\n')}\n`);
}

/** Writes bench/plots/<name>.svg. Rows that have no number of this unit there are left out. */
function drawColumn(name, header, rows, { column, unit = '', label, mark }) {
  const at = header.indexOf(column);
  const bars = rows.flatMap((cells) => {
    const value = cells[at].endsWith(unit) ? cells[at].slice(0, cells[at].length - unit.length) : '';
    const [, low, high] = /^([\d.]+)–([\d.]+)$/.exec(cells[at + 1] ?? '') ?? [];
    if (!/^[\d.]+$/.test(value)) return [];
    return [{ label: cells[0], value: +value, ...(low && { low: +low, high: +high }) }];
  });
  return writePlot(name, { title: name, x: label, bars, mark });
}

export function perSecond(rate) {
  return rate.toFixed(rate < 100 ? 1 : 0);
}

export function range(list, digits = 2) {
  return `${Math.min(...list).toFixed(digits)}–${Math.max(...list).toFixed(digits)}`;
}

/** As it was started, but for where the results go and where the data is kept: that is this machine's own. */
function commandOf(name) {
  const given = process.argv.slice(2);
  const told = given.filter((text, n) => !/^--(write|data)(=|$)/.test(text) && given[n - 1] !== '--data');
  return ['npm run bench --', name, ...told].join(' ');
}

function tableOf(header, rows) {
  return [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
