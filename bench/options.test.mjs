import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { helpOf, readOptions } from './options.mjs';

const known = {
  seconds: { quick: 1, full: 3 },
  connections: 32,
  writers: { quick: [4], full: [1, 4, 16] },
  data: null,
  install: false,
};

describe('the options of a benchmark', () => {
  it('have the defaults of a full run', () => {
    expect(readOptions(known, [])).toEqual({
      quick: false,
      write: false,
      seconds: 3,
      connections: 32,
      writers: [1, 4, 16],
      data: null,
      install: false,
    });
  });

  it('have other defaults with --quick, and a given value beats both', () => {
    expect(readOptions(known, ['--quick'])).toMatchObject({ quick: true, seconds: 1, writers: [4] });
    expect(readOptions(known, ['--quick', '--seconds', '5', '--writers=2,8', '--write'])).toMatchObject({
      seconds: 5,
      writers: [2, 8],
      write: true,
    });
    expect(readOptions(known, ['--data', '12', '--install'])).toMatchObject({ data: '12', install: true });
  });

  it('accept an empty list', () => {
    expect(readOptions(known, ['--writers=']).writers).toEqual([]);
  });

  it.each([
    [['--seconds', 'ten'], '--seconds takes a number, not "ten".'],
    [['--seconds', ''], '--seconds takes a number, not "".'],
    [['--writers', '1,x'], '--writers takes a number, not "x".'],
    [['--no-such'], "Unknown option '--no-such'"],
  ])('refuse %j', (args, message) => {
    expect(() => readOptions(known, args)).toThrow(message);
  });
});

describe('the help of a benchmark', () => {
  const root = path.resolve(import.meta.dirname, '..');
  const run = (program, ...args) =>
    execFileSync(process.execPath, [path.join(root, program), ...args], { encoding: 'utf8' });
  const suites = run('scripts/bench.mjs', '--list').trimEnd().split('\n');

  it('has the head of its file, and the options with their defaults', () => {
    const writers = { quick: [4], full: [1, 16], what: 'writers, one after another' };
    const source = '// Measures something.\n// Needs wrk.\nimport "x";\n// Not this.\n';
    const help = helpOf(source, { quick: false, seconds: { quick: 1, full: 3 }, writers, data: null });
    expect(help.split('\n')).toEqual([
      'Measures something.',
      'Needs wrk.',
      '',
      'Options:',
      '  --quick                  shows that everything runs, not how fast',
      '  --seconds <number>       seconds of each load (default: 3, with --quick 1)',
      '  --writers <numbers>      writers, one after another (default: 1,16, with --quick 4)',
      '  --data <text>            a folder that keeps the projects for the next run',
      '  --help                   prints this text',
    ]);
  });

  it('refuses an option that nothing explains', () => {
    expect(() => helpOf('// Head.\n', { unknown: 1 })).toThrow('Nothing says what --unknown means.');
  });

  it('lists the suites, each with a line about it', () => {
    expect(suites.length).toBeGreaterThan(20);
    for (const line of suites) expect(line).toMatch(/^ {2}[a-z-]+ {2,}\S.*$/);
  });

  it('is reached by the name of a suite, and without one shows the list', () => {
    expect(run('scripts/bench.mjs', 'rpo', '--help')).toBe(run('bench/rpo.mjs', '--help'));
    expect(run('scripts/bench.mjs', '--compare', '--help')).toBe(run('bench/compare.mjs', '--help'));
    expect(run('scripts/bench.mjs', '--help')).toContain(suites.join('\n'));
  });

  it('names the suites that docs/performance.md describes', () => {
    const page = readFileSync(path.join(root, 'docs', 'performance.md'), 'utf8');
    const described = [...page.matchAll(/^\| `([a-z-]+)` \| /gm)].map(([, name]) => name);
    expect(described.sort()).toEqual(suites.map((line) => line.trim().split(' ')[0]).sort());
  });

  it.each(suites.map((line) => line.trim().split(' ')[0]))('is there for %s', (suite) => {
    const help = run(`bench/${suite}.mjs`, '--help');
    const source = readFileSync(path.join(root, 'bench', `${suite}.mjs`), 'utf8');
    expect(help).toContain(source.split('\n', 1)[0].slice('// '.length));
    expect(help).toContain('--quick');
  });
});
