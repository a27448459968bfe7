/** A part of a long text keeps all of it in memory, as V8 stores it; what is remembered of a statement must not. */
export function ownText(part: string): string {
  return part.length < sharedFrom ? part : Buffer.from(part).toString();
}

/** Shorter parts are always copied. */
const sharedFrom = 13;
