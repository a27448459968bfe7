// Draws the plots of RESULTS.md as SVG: lines, and bars with their spread. No background and colours of medium brightness,
// so that they are legible on light and dark pages.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const colours = ['#2f81f7', '#d9730d', '#2da44e', '#bf4bc8', '#c93c37', '#0f9da8', '#8c7a3d'];
const ink = '#7d8590';
const font = 'font-family="system-ui, sans-serif"';

/** Draws bench/plots/<name>.svg. */
export function writePlot(name, plot) {
  return writeDrawing(name, plot.bars ? drawBars(plot) : drawLines(plot));
}

/** Returns the path relative to RESULTS.md. */
export function writeDrawing(name, drawing) {
  const folder = path.join(import.meta.dirname, 'plots');
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, `${name}.svg`), drawing);
  return `plots/${name}.svg`;
}

/**
 * `series`: [{ name, points: [[x, y], …] }]. `x` and `y`: a label, or { label, log } for a logarithmic axis. A linear axis
 * begins at 0.
 */
export function drawLines({ title, x, y, series }) {
  const [left, top, width, height] = [78, 44, 470, 280];
  const shown = series
    .map(({ name, points }) => ({ name, points: points.filter((point) => point.every(Number.isFinite)) }))
    .filter(({ points }) => points.length > 0);
  const all = shown.flatMap(({ points }) => points);
  const across = axisOf(
    x,
    all.map((point) => point[0]),
  );
  const up = axisOf(
    y,
    all.map((point) => point[1]),
  );
  const at = ([valueX, valueY]) => [
    left + across.place(valueX) * width,
    top + height - up.place(valueY) * height,
  ];
  const parts = [text(left, 22, title, { size: 15, weight: 600 })];
  for (const tick of up.ticks) {
    const [, tickY] = at([across.ticks[0], tick]);
    parts.push(line([left, tickY], [left + width, tickY], { faint: true }));
    parts.push(text(left - 8, tickY + 4, shortNumber(tick), { anchor: 'end' }));
  }
  for (const tick of across.ticks) {
    const [tickX] = at([tick, up.ticks[0]]);
    parts.push(line([tickX, top + height], [tickX, top + height + 5], {}));
    parts.push(text(tickX, top + height + 20, shortNumber(tick), { anchor: 'middle' }));
  }
  parts.push(line([left, top + height], [left + width, top + height], {}));
  parts.push(text(left + width / 2, top + height + 42, across.label, { anchor: 'middle' }));
  parts.push(
    `<g transform="translate(18 ${top + height / 2}) rotate(-90)">${text(0, 0, up.label, { anchor: 'middle' })}</g>`,
  );
  for (const [n, { name, points }] of shown.entries()) {
    const colour = colours[n % colours.length];
    const places = points.map(at);
    const vertices = places.map((place) => place.map(round).join(',')).join(' ');
    parts.push(`<polyline points="${vertices}" fill="none" stroke="${colour}" stroke-width="2"/>`);
    for (const [dotX, dotY] of places) {
      parts.push(`<circle cx="${round(dotX)}" cy="${round(dotY)}" r="3" fill="${colour}"/>`);
    }
    const row = top + 8 + n * 20;
    parts.push(line([left + width + 16, row], [left + width + 36, row], { colour }));
    parts.push(text(left + width + 42, row + 4, name));
  }
  return svg(740, top + height + 58, title, parts);
}

/** `bars`: [{ label, value, low, high }]; low and high are the spread. `x`: a label. `mark`: the value of a reference line. */
export function drawBars({ title, x, bars, mark }) {
  const longest = Math.max(0, ...bars.map(({ label }) => label.length));
  const left = Math.max(190, 20 + 6.2 * longest);
  const [top, width, step] = [44, 630 - left, 26];
  const height = bars.length * step;
  const values = bars.flatMap(({ value, high }) => [value, high ?? value]);
  const axis = axisOf(x, mark === undefined ? values : [...values, mark]);
  const at = (value) => left + axis.place(value) * width;
  const parts = [text(12, 22, title, { size: 15, weight: 600 })];
  for (const tick of axis.ticks) {
    parts.push(line([at(tick), top], [at(tick), top + height], { faint: true }));
    parts.push(text(at(tick), top + height + 18, shortNumber(tick), { anchor: 'middle' }));
  }
  for (const [n, { label, value, low, high }] of bars.entries()) {
    const middle = top + n * step + step / 2;
    const begin = at(axis.ticks[0]);
    parts.push(text(left - 8, middle + 4, label, { anchor: 'end' }));
    parts.push(
      `<rect x="${round(begin)}" y="${round(middle - 8)}" width="${round(Math.max(0, at(value) - begin))}" height="16" fill="${colours[0]}" fill-opacity="0.75"/>`,
    );
    if (low !== undefined && high !== undefined) {
      parts.push(line([at(low), middle], [at(high), middle], { colour: colours[1] }));
    }
    parts.push(text(Math.max(at(value), at(high ?? value)) + 6, middle + 4, shortNumber(value)));
  }
  if (mark !== undefined) parts.push(line([at(mark), top], [at(mark), top + height], { colour: colours[4] }));
  parts.push(text(left + width / 2, top + height + 40, axis.label, { anchor: 'middle' }));
  return svg(720, top + height + 54, title, parts);
}

/** `place` maps a value to 0…1; `ticks` are the labelled values. */
function axisOf(given, values) {
  const { label, log = false } = typeof given === 'string' ? { label: given } : given;
  const positive = values.filter((value) => value > 0);
  const greatest = Math.max(...positive, 0) || 1;
  if (log && positive.length > 0) {
    const begin = Math.floor(Math.log10(Math.min(...positive)) + 1e-9);
    const end = Math.max(begin + 1, Math.ceil(Math.log10(greatest) - 1e-9));
    const ticks = Array.from({ length: end - begin + 1 }, (_, n) => 10 ** (begin + n));
    const place = (value) =>
      Math.max(0, (Math.log10(Math.max(value, Number.MIN_VALUE)) - begin) / (end - begin));
    return { label, ticks, place };
  }
  const rough = greatest / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const stepBy = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  const count = Math.ceil(greatest / stepBy - 1e-9);
  const ticks = Array.from({ length: count + 1 }, (_, n) => Number((n * stepBy).toPrecision(12)));
  return { label, ticks, place: (value) => Math.max(0, value) / ticks.at(-1) };
}

export function svg(width, height, title, parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">
${parts.join('\n')}
</svg>
`;
}

export function text(x, y, content, { anchor = 'start', size = 12, weight = 400, colour = ink } = {}) {
  return `<text x="${round(x)}" y="${round(y)}" ${font} font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" fill="${colour}">${escaped(content)}</text>`;
}

function line([fromX, fromY], [toX, toY], { colour = ink, faint = false }) {
  const width = colour === ink ? 1 : 2;
  return `<line x1="${round(fromX)}" y1="${round(fromY)}" x2="${round(toX)}" y2="${round(toY)}" stroke="${colour}" stroke-width="${width}"${faint ? ' stroke-opacity="0.3"' : ''}/>`;
}

function shortNumber(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (value >= 10_000) return `${Number((value / 1e3).toPrecision(3))} k`;
  return String(Number(value.toPrecision(3)));
}

export function round(value) {
  return Number(value.toFixed(1));
}

export function escaped(content) {
  const names = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  // XML allows no control characters, not even as references.
  return [...String(content)]
    .filter((character) => character >= ' ')
    .map((character) => names[character] ?? character)
    .join('');
}
