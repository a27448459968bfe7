// Prints the table of a benchmark, and with --write replaces its section in RESULTS.md. Also formats figures.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import path from 'node:path';
import { writePlot } from './plot.mjs';

/**
 * What follows the table: `notes`, a list of sentences; `tables`, [{ title, header, rows }]; `plots`, names of files beside
 * RESULTS.md; `bars`, { column, unit, label, mark }: a column of the table to draw, with its spread if the next column has
 * one.
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
    : '# Results\n\nThe last run of each benchmark. On another machine, only ratios within one run are comparable.\n';
  const others = before.split(/^(?=## )/m).filter((part) => !part.startsWith(`## ${name}\n`));
  const [head, ...sections] = others;
  sections.push(section);
  // What callers send most comes first, the others by name.
  sections.sort((a, b) => b.startsWith(first) - a.startsWith(first) || (a < b ? -1 : 1));
  writeFileSync(file, `${[head.trimEnd(), ...sections.map((part) => part.trimEnd())].join('\n\n')}\n`);
}

const first = '## forms\n';

/** Replaces what a page of the documentation quotes: the text between `<!-- bench:name -->` and `<!-- /bench:name -->`. */
export function quote(page, name, text) {
  const file = path.resolve(import.meta.dirname, '..', page);
  const before = readFileSync(file, 'utf8');
  const [open, close] = [`<!-- bench:${name} -->`, `<!-- /bench:${name} -->`];
  const [from, to] = [before.indexOf(open), before.indexOf(close)];
  if (from < 0 || to < from) throw new Error(`${page} has no ${open} followed by ${close}.`);
  writeFileSync(file, `${before.slice(0, from + open.length)}\n${text}\n${before.slice(to)}`);
}

/** Writes bench/plots/<name>.svg. Omits rows whose cell is not a number with this unit. */
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

/** The command line, without --write and --data. Paths are local to this machine. */
function commandOf(name) {
  const given = process.argv.slice(2).map((text, n, all) => (all[n - 1] === '--before' ? '<folder>' : text));
  const shown = given.filter((text, n) => !/^--(write|data)(=|$)/.test(text) && given[n - 1] !== '--data');
  return ['npm run bench --', name, ...shown].join(' ');
}

export function tableOf(header, rows) {
  return [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
