// A JSON object of so many names that V8 handles it too slowly: making one of 99,000 names that are numbers keeps the event
// loop busy for up to 50 ms at a stretch, and listing its names for as long again, because V8 sorts them. A Map grows within
// 6 ms, and keeps the order in which the names were sent.

/** More than the columns of a table, the fields of a type and the properties of a schema: a wider object is a mere value. */
export const wideNames = 2_000;

export class WideObject {
  readonly #entries: ReadonlyMap<string, unknown>;
  #names: readonly string[] | null = null;

  constructor(entries: ReadonlyMap<string, unknown>) {
    this.#entries = entries;
  }

  get names(): readonly string[] {
    this.#names ??= [...this.#entries.keys()];
    return this.#names;
  }

  get entries(): Iterable<[string, unknown]> {
    return this.#entries;
  }

  /** JSON.stringify writes all names, too, but at once. Values that can be large are written by addJson. */
  toJSON(): Record<string, unknown> {
    return Object.fromEntries(this.#entries);
  }
}

/** The names in an object, which may be a WideObject. */
export function namesOf(object: object): readonly string[] {
  return object instanceof WideObject ? object.names : Object.keys(object);
}

/** The names and values in an object, which may be a WideObject. */
export function* entriesOf(object: object): Iterable<[string, unknown]> {
  if (object instanceof WideObject) yield* object.entries;
  else for (const name of Object.keys(object)) yield [name, (object as Record<string, unknown>)[name]];
}
