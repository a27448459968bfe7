// Connections with large results, and long computations, take turns: at most one of them in a turn of the event loop. A
// request with a small result therefore never waits for more than one of them.
//
// Turns are short while there is nothing else to do, and long beside many requests. A connection with an answer for a caller
// leaves some out, unless several wait: its PostgreSQL process then waits until its rows are read, and leaves the processor
// to those of the others.

/** With more than this many waiting, none leaves out any. */
const leftOut = 2;

type Waiting = { resume: () => void; leavesOut: number };
const waiting: Waiting[] = [];

/** So many wait that none leaves out turns: reading less at a time would only be slower. */
export function isCrowded(): boolean {
  return waiting.length > leftOut;
}

/** Calls `resume` when it is the connection's turn to read on. `yields`: it leaves turns out. */
export function nextRead(resume: () => void, yields: boolean): void {
  wait({ resume, leavesOut: yields ? leftOut : 0 });
}

/** For long computations: lets other work run before the next slice. */
export function turn(): Promise<void> {
  return new Promise((resolve) => wait({ resume: resolve, leavesOut: 0 }));
}

function wait(entry: Waiting): void {
  if (waiting.push(entry) === 1) setImmediate(takeTurn);
}

function takeTurn(): void {
  const next = isCrowded() ? 0 : waiting.findIndex(({ leavesOut }) => leavesOut === 0);
  for (const entry of waiting) entry.leavesOut = Math.max(0, entry.leavesOut - 1);
  waiting.splice(next, next < 0 ? 0 : 1)[0]?.resume();
  if (waiting.length > 0) setImmediate(takeTurn);
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
