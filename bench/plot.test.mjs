import { describe, expect, it } from 'vitest';
import { cleanName, drawFlame, foldStacks } from './flame.mjs';
import { drawBars, drawLines } from './plot.mjs';

/** Every tag is closed in its order, every attribute quoted, every & begins a reference. */
function problemOf(xml) {
  const open = [];
  const tag = /<(\/?)([a-z]+)((?: [a-zA-Z:0-9-]+="[^"<]*")*)(\/?)>|<|&(?!(?:amp|lt|gt|quot);)/g;
  for (const [found, closes, name, , isEmpty] of xml.matchAll(tag)) {
    if (!name) return `"${found}" is not escaped`;
    if (closes && open.pop() !== name) return `</${name}> closes nothing`;
    if (!closes && !isEmpty) open.push(name);
  }
  return open.length === 0 ? null : `<${open.join('>, <')}> stays open`;
}

const nasty = `a < b & "c" 'd' \u0000 ✓`;

describe('plots', () => {
  it('are well-formed XML for any title, label and name', () => {
    const lines = drawLines({
      title: nasty,
      x: { label: 'connections', log: true },
      y: nasty,
      series: [
        {
          name: nasty,
          points: [
            [1, 10],
            [8, 70],
            [512, 12_345],
          ],
        },
        { name: 'empty', points: [] },
        {
          name: 'with a gap',
          points: [
            [1, 1],
            [8, Number.NaN],
            [32, 0],
          ],
        },
      ],
    });
    const bars = drawBars({
      title: nasty,
      x: 'times as many requests a second',
      bars: [
        { label: nasty, value: 2.5, low: 2, high: 3 },
        { label: 'nothing', value: 0 },
      ],
      mark: 1,
    });
    for (const svg of [lines, bars]) {
      expect(problemOf(svg)).toBe(null);
      expect(svg).not.toMatch(/NaN|Infinity|undefined|\0/);
      expect(svg.startsWith('<svg xmlns="http://www.w3.org/2000/svg"')).toBe(true);
    }
    expect(problemOf('<svg><g></svg>')).toBeTruthy();
    expect(problemOf('<svg>a & b</svg>')).toBeTruthy();
  });

  it('place points in proportion to their values', () => {
    const svg = drawLines({
      title: 't',
      x: 'x',
      y: 'y',
      series: [
        {
          name: 's',
          points: [
            [0, 0],
            [10, 100],
            [5, 50],
          ],
        },
      ],
    });
    const [first, last, middle] = [...svg.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)"/g)].map(
      ([, x, y]) => [+x, +y],
    );
    expect(middle[0]).toBeCloseTo((first[0] + last[0]) / 2, 0);
    expect(middle[1]).toBeCloseTo((first[1] + last[1]) / 2, 0);
    expect(last[1]).toBeLessThan(first[1]);
  });

  it('are well-formed without data', () => {
    expect(problemOf(drawLines({ title: 't', x: 'x', y: { label: 'y', log: true }, series: [] }))).toBe(null);
    expect(problemOf(drawBars({ title: 't', x: 'x', bars: [] }))).toBe(null);
  });
});

describe('flame graphs', () => {
  const script = `node
\tffffffff81 do_syscall_64+0x1
\t    7f0001 uv__write
\t    7f0002 JS:*send file:///home/me/rowhouse/packages/server/dist/postgres/session.js:84:7

node
\t    7f0002 JS:*send file:///home/me/rowhouse/packages/server/dist/postgres/session.js:84:7

sshd
\t    7f0003 main
`;

  it('count samples by stack, from the outermost function on', () => {
    const { count, children } = foldStacks(script, (command) => (command === 'node' ? 'service' : null));
    expect([count, [...children.keys()]]).toEqual([2, ['service']]);
    const [send] = children.get('service').children.values();
    expect([send.name, send.count]).toEqual(['send server/dist/postgres/session.js:84:7', 2]);
    const [write] = send.children.values();
    expect([write.name, write.count, [...write.children.keys()]]).toEqual([
      'uv__write',
      1,
      ['do_syscall_64'],
    ]);
  });

  it('show functions as wide as their part of the samples, in well-formed XML', () => {
    const svg = drawFlame(nasty, foldStacks(script));
    expect(problemOf(svg)).toBe(null);
    const [, wide] = /<title>uv__write, 33.3 %<\/title><rect x="[\d.]+" y="\d+" width="([\d.]+)"/.exec(svg);
    expect(Number(wide)).toBeCloseTo(400, 0);
    expect(problemOf(drawFlame('none', foldStacks('')))).toBe(null);
  });

  it('name functions without folders, parameters and offsets', () => {
    expect(cleanName('v8::internal::(anonymous namespace)::Invoke(v8::internal::Isolate*, int)')).toBe(
      'v8::internal::Invoke',
    );
    expect(cleanName('JS:^query /srv/app/node_modules/pg/lib/client.js:668:8')).toBe(
      'query pg/lib/client.js:668:8',
    );
    expect(cleanName('JS:*processTimers node:internal/timers:504:25')).toBe(
      'processTimers node:internal/timers:504:25',
    );
  });
});
