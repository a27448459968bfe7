// Writes a parameter that is too large to write at once: its text as UTF-8, slice by slice, with other work in between.

import { turn } from '../../lib/fair-reads.ts';
import type { Pieces } from '../../postgres/wire/frontend-messages.ts';
import { escapeElement, toElement, toJsonElement } from './array-text.ts';
import { toJsonText } from './json-text.ts';
import { isLarge, markLarge, sliceBytes } from './large-json.ts';
import { entriesOf } from './wide-object.ts';

/** Collects text and returns it as bytes. */
export class TextPieces {
  readonly pieces: Buffer[] = [];
  size = 0;
  private text = '';

  add(text: string): void {
    this.text += text;
    if (this.text.length > sliceBytes) this.flush();
  }

  get isFull(): boolean {
    return this.pieces.length > this.yieldedAt;
  }

  private yieldedAt = 0;

  /** Lets other work run, if any piece was completed since the last call. */
  async yieldIfFull(): Promise<void> {
    if (!this.isFull) return;
    this.yieldedAt = this.pieces.length;
    await turn();
  }

  /** Returns the pieces so far. */
  take(): Buffer[] {
    this.yieldedAt = 0;
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

/** Adds the text. `transform` receives slices of whole characters. */
export async function addText(
  out: TextPieces,
  text: string,
  transform: (slice: string) => string = identity,
): Promise<void> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + sliceBytes);
    // Not between the halves of a surrogate pair.
    if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end--;
    out.add(transform(text.slice(at, end)));
    await out.yieldIfFull();
    at = end;
  }
}

const identity = (slice: string) => slice;

/** An array of json as text inside JSON, as toJsonArrayText writes it for small arrays. */
export class JsonArrayText {
  readonly values: readonly unknown[];

  constructor(values: readonly unknown[]) {
    this.values = values;
    markLarge(this);
  }
}

/** Writes as toJsonText does. `transform` escapes each piece, if the JSON becomes part of another text. */
export async function addJson(out: TextPieces, value: unknown, transform = identity): Promise<void> {
  if (!isLarge(value)) return out.add(transform(toJsonText(value)));
  const inString = (slice: string) => transform(JSON.stringify(slice).slice(1, -1));
  if (typeof value === 'string' || value instanceof JsonArrayText) {
    out.add(transform('"'));
    if (typeof value === 'string') await addText(out, value, inString);
    else await addArray(out, value.values, 'json', inString);
    out.add(transform('"'));
    return;
  }
  const isArray = Array.isArray(value);
  out.add(isArray ? transform('[') : transform('{'));
  let isFirst = true;
  for (const [name, entry] of isArray ? value.entries() : entriesOf(value as object)) {
    const key = isArray ? '' : `${JSON.stringify(name)}:`;
    out.add(transform(isFirst ? key : `,${key}`));
    isFirst = false;
    if (isLarge(entry)) await addJson(out, entry, transform);
    else out.add(transform(toJsonText(entry)));
    if (out.isFull) await out.yieldIfFull();
  }
  out.add(isArray ? transform(']') : transform('}'));
}

/** Writes as toArrayText or toJsonArrayText does. */
export async function addArray(
  out: TextPieces,
  values: readonly unknown[],
  of: 'any' | 'integer' | 'json' = 'any',
  transform = identity,
): Promise<void> {
  const isJson = of === 'json';
  const element = of === 'json' ? toJsonElement : (value: unknown) => toElement(value, of);
  const escaped = (slice: string) => transform(escapeElement(slice));
  out.add('{');
  for (const [index, value] of values.entries()) {
    if (index > 0) out.add(',');
    if (!isLarge(value)) out.add(transform(element(value)));
    else if (Array.isArray(value) && !isJson) await addArray(out, value, of, transform);
    else {
      out.add(transform('"'));
      if (typeof value === 'string' && !isJson) await addText(out, value, escaped);
      else await addJson(out, value, escaped);
      out.add(transform('"'));
    }
    if (out.isFull) await out.yieldIfFull();
  }
  out.add('}');
}
