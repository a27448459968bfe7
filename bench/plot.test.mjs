import { describe, expect, it } from 'vitest';
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
