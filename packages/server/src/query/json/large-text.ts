// Writing what is too large to be written in one go: the text of a parameter as UTF-8, slice by slice, with turns for
// others in between.

import { turn } from '../../postgres/fair-reads.ts';
import type { Pieces } from '../../postgres/frontend-messages.ts';
import { escapeElement, toElement, toJsonElement } from './array-text.ts';
import { toJsonText } from './json-text.ts';
import { isLarge, markLarge, sliceBytes } from './large-json.ts';

/** Collects text and hands it on as bytes. */
export class TextPieces {
  readonly pieces: Buffer[] = [];
  size = 0;
  private text = '';

  add(text: string): void {
    this.text += text;
    if (this.text.length > sliceBytes) this.flush();
  }

  get isFull(): boolean {
    return this.pieces.length > this.taken;
  }

  private taken = 0;

  /** Others have their turn, if anything was written since the last one. */
  async rest(): Promise<void> {
    if (!this.isFull) return;
    this.taken = this.pieces.length;
    await turn();
  }

  /** What there is so far. */
  take(): Buffer[] {
    this.taken = 0;
    return this.pieces.splice(0);
  }

  end(): Pieces {
    this.flush();
    return { pieces: this.pieces, size: this.size };
  }

  private flush(): void {
    if (this.text === '') return;
    const bytes = Buffer.from(this.text, 'utf8');
    this.pieces.push(bytes);
    this.size += bytes.length;
    this.text = '';
  }
}

/** The text itself. `change` is given slices that hold whole characters. */
export async function addText(
  out: TextPieces,
  text: string,
  change: (slice: string) => string = same,
): Promise<void> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + sliceBytes);
    // Not between the halves of a character.
    if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end--;
    out.add(change(text.slice(at, end)));
    await out.rest();
    at = end;
  }
}

const same = (slice: string) => slice;

/** Inside JSON: the text of an array of json, which toJsonArrayText writes of small ones. */
export class JsonArrayText {
  readonly values: readonly unknown[];

  constructor(values: readonly unknown[]) {
    this.values = values;
    markLarge(this);
  }
}

/** As toJsonText writes it. `change`: of each piece of it, if it goes into something else. */
export async function addJson(out: TextPieces, value: unknown, change = same): Promise<void> {
  if (!isLarge(value)) return out.add(change(toJsonText(value)));
  const inString = (slice: string) => change(JSON.stringify(slice).slice(1, -1));
  if (typeof value === 'string' || value instanceof JsonArrayText) {
    out.add(change('"'));
    if (typeof value === 'string') await addText(out, value, inString);
    else await addArray(out, value.values, 'json', inString);
    out.add(change('"'));
    return;
  }
  const isArray = Array.isArray(value);
  out.add(isArray ? change('[') : change('{'));
  let isFirst = true;
  for (const [name, entry] of isArray ? value.entries() : Object.entries(value as object)) {
    const key = isArray ? '' : `${JSON.stringify(name)}:`;
    out.add(change(isFirst ? key : `,${key}`));
    isFirst = false;
    if (isLarge(entry)) await addJson(out, entry, change);
    else out.add(change(toJsonText(entry)));
    if (out.isFull) await out.rest();
  }
  out.add(isArray ? change(']') : change('}'));
}

/** As toArrayText writes it, or toJsonArrayText. */
export async function addArray(
  out: TextPieces,
  values: readonly unknown[],
  of: 'any' | 'json' = 'any',
  change = same,
): Promise<void> {
  const isJson = of === 'json';
  const escaped = (slice: string) => change(escapeElement(slice));
  out.add('{');
  for (const [index, value] of values.entries()) {
    if (index > 0) out.add(',');
    if (!isLarge(value)) out.add(change(isJson ? toJsonElement(value) : toElement(value)));
    else if (Array.isArray(value) && !isJson) await addArray(out, value, of, change);
    else {
      out.add(change('"'));
      if (typeof value === 'string' && !isJson) await addText(out, value, escaped);
      else await addJson(out, value, escaped);
      out.add(change('"'));
    }
    if (out.isFull) await out.rest();
  }
  out.add('}');
}
