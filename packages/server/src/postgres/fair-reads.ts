// Connections that have more to read than fits into one read take turns, one in each turn of the event loop: whoever
// waits for something small is never behind more than one of them.

const waiting: (() => void)[] = [];

export function nextTurn(go: () => void): void {
  if (waiting.push(go) === 1) setImmediate(takeTurn);
}

function takeTurn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(takeTurn);
}

/** For long work of one's own: after each slice others come first. */
export function turn(): Promise<void> {
  return new Promise(nextTurn);
}

/** Work that yields after each slice of it. */
export type Slices<T> = Generator<undefined, T>;

/** All of it now. */
export function atOnce<T>(work: Slices<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value as T;
  }
}

/** The same with turns for others. */
export async function inTurns<T>(work: Slices<T>): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value as T;
    await turn();
  }
}
