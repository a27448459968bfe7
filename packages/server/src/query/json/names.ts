// The names in an object. Listing those of 99,000 takes 30 to 80 ms, and Object.entries up to 180 ms, because V8 sorts them
// first. So the reader of large JSON notes the names as it meets them, in slices, and nobody lists them again.

const noted = new WeakMap<object, readonly string[]>();

/** In the order of Object.keys. */
export function namesOf(object: object): readonly string[] {
  return noted.get(object) ?? Object.keys(object);
}

/** Collects the names of one object. */
export class Names {
  private readonly indices: number[] = [];
  private readonly texts: string[] = [];

  /** Each name once. */
  add(name: string): void {
    const index = /^(?:0|[1-9]\d{0,9})$/.test(name) ? Number(name) : maxIndex;
    if (index < maxIndex) this.indices.push(index);
    else this.texts.push(name);
  }

  noteFor(object: object): void {
    // Like JavaScript: those that can be an array's index come first, by size.
    const sorted = Array.from(Uint32Array.from(this.indices).sort(), String);
    noted.set(object, sorted.length === 0 ? this.texts : sorted.concat(this.texts));
  }
}

/** 2³² - 1 is no index of an array. */
const maxIndex = 2 ** 32 - 1;
