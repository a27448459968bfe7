// Text for a terminal: aligned columns, and untrusted text (such as a project's name) without control characters.
import { paint } from './colour.ts';

export type Column = { title: string; align?: 'right'; max?: number };
type Cell = string | number;

export function formatTable(columns: readonly Column[], rows: readonly (readonly Cell[])[]): string {
  const lines = [columns.map(({ title }) => title), ...rows].map((row) =>
    columns.map(({ max }, index) => clip(clean(String(row[index] ?? '')), max ?? Number.POSITIVE_INFINITY)),
  );
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => widthOf(line[index] ?? ''))));
  return lines
    .map((line) =>
      line
        .map((text, index) => {
          const space = ' '.repeat((widths[index] ?? 0) - widthOf(text));
          return columns[index]?.align === 'right' ? space + text : text + space;
        })
        .join('  ')
        .trimEnd(),
    )
    .map((line, index) => (index === 0 ? paint(process.stdout, 'bold', line) : line))
    .join('\n');
}

/** One record: a name and a value on each line. */
export function formatFields(fields: readonly (readonly [string, Cell])[]): string {
  const width = Math.max(...fields.map(([name]) => widthOf(name)));
  return fields
    .map(([name, value]) => `${name}${' '.repeat(width - widthOf(name))}  ${clean(String(value))}`)
    .join('\n');
}

/**
 * Control characters (C1 included: U+009B begins an escape sequence too), bidirectional overrides and line separators
 * become visible. The two joiners stay: several scripts and emoji need them, and they do not move the cursor.
 */
export function clean(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) =>
    character === '\u200c' || character === '\u200d' ? character : '\ufffd',
  );
}

/** The same protection for JSON: every such character becomes an escape, so the value stays the same. */
export function formatJson(value: unknown, indent = 2): string {
  return JSON.stringify(value, null, indent).replace(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu, (character) =>
    Array.from({ length: character.length }, (_, index) => {
      const unit = character.charCodeAt(index).toString(16);
      return `\\u${unit.padStart(4, '0')}`;
    }).join(''),
  );
}

/** Columns that a text takes in a terminal: close enough for Chinese, Japanese, Korean, emoji and combining marks. */
export function widthOf(text: string): number {
  let width = 0;
  for (const { segment } of segmenter.segment(text))
    width += nothing.test(segment) ? 0 : wide(segment) ? 2 : 1;
  return width;
}

const segmenter = new Intl.Segmenter();
const nothing = /^[\p{M}\u200c\u200d]+$/u;
const wideLetter = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303e]/u;
const wideForm = /^[\uff01-\uff60\uffe0-\uffe6\p{Emoji_Presentation}]/u;
const halfForm = /^[\uff61-\uffdc]/;

function wide(segment: string): boolean {
  if (segment.includes('\ufe0f')) return true;
  return (wideLetter.test(segment) && !halfForm.test(segment)) || wideForm.test(segment);
}

function clip(text: string, max: number): string {
  if (widthOf(text) <= max) return text;
  let kept = '';
  for (const { segment } of segmenter.segment(text)) {
    if (widthOf(kept) + widthOf(segment) > max - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** 1 project, 2 projects. */
export const counted = (count: number, one: string) => `${count} ${count === 1 ? one : `${one}s`}`;
