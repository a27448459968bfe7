// An error for operators: what happened, the last lines of PostgreSQL's log, and what to do.

export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly lines: readonly string[];
  readonly hint: string | undefined;

  constructor(message: string, { lines = [], hint }: { lines?: readonly string[]; hint?: string } = {}) {
    super(message);
    this.lines = lines;
    this.hint = hint;
  }
}

/** A hint for known messages of PostgreSQL. Only for people: no code branches on it. */
export function hintFor(lines: readonly string[]): string | undefined {
  const text = lines.join('\n');
  return hints.find(([words]) => words.test(text))?.[1];
}

const hints: [RegExp, string][] = [
  [
    /No space left on device|ENOSPC/i,
    'The disk is full: free at least 64 MB on the disk of the data folder (delete or move other files, or enlarge it), then start again. Delete nothing inside the data folder.',
  ],
  [
    /could not bind|Address already in use/i,
    'Another program took the port: start again, and another is chosen.',
  ],
  [
    /Permission denied/i,
    'The data folder or a file in it cannot be used by the account that runs PostgreSQL.',
  ],
  [/incompatible with server/i, 'The data folder belongs to another major version of PostgreSQL.'],
  [
    /pre-existing shared memory|Is another postmaster/i,
    'An old PostgreSQL process still uses the data folder: stop it.',
  ],
  [
    /could not create shared memory|Cannot allocate memory|out of memory/i,
    'The machine has too little memory free.',
  ],
  [
    /invalid checkpoint|could not locate a valid checkpoint|invalid primary checkpoint/i,
    'The data folder is damaged: restore a backup.',
  ],
];
