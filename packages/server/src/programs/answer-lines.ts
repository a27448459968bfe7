// What the programs behind a command of rowhouse have in common: lines of JSON on stdout, progress and then the answer, and an
// end when they are interrupted.
export const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

let told = -1;
/** Only whole percents that were not told yet. */
export function tellProgress(fraction: number): void {
  const percent = Math.floor(Math.min(1, fraction) * 100);
  if (percent > told) say({ progress: percent });
  told = Math.max(told, percent);
}

/** Aborted by the first signal that asks the program to end. */
export function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => interrupted.abort());
  return interrupted.signal;
}
