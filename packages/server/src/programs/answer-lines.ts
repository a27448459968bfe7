// Shared by the programs that a command of rowhouse runs: they print their progress and their answer as lines of JSON on stdout, and
// end when they are interrupted.
export const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

let told = -1;
/** Prints each whole percent once. */
export function tellProgress(fraction: number): void {
  const percent = Math.floor(Math.min(1, fraction) * 100);
  if (percent > told) say({ progress: percent });
  told = Math.max(told, percent);
}

/** The first signal that asks the program to end aborts it. */
export function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => interrupted.abort());
  return interrupted.signal;
}
