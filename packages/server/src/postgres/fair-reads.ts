// Connections with more data than fits into one read take turns, one per turn of the event loop. A request with a small
// result therefore never waits for more than one of them.

const waiting: (() => void)[] = [];

export function nextTurn(resume: () => void): void {
  if (waiting.push(resume) === 1) setImmediate(takeTurn);
}

function takeTurn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(takeTurn);
}

/** For long computations: lets other work run before the next slice. */
export function turn(): Promise<void> {
  return new Promise(nextTurn);
}

/** A computation that yields after each slice. */
export type Slices<T> = Generator<undefined, T>;

/** Runs all slices now. */
export function atOnce<T>(work: Slices<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value as T;
  }
}

/** Runs the slices and lets other work run between them. */
export async function inTurns<T>(work: Slices<T>): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value as T;
    await turn();
  }
}
