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
    'The disk is full. Free at least 64 MB on the disk of the data folder, or enlarge it, then start again. Do not delete anything inside the data folder.',
  ],
  [
    /could not bind|Address already in use/i,
    'Another program took the port. Start again: Rowhouse then chooses another port.',
  ],
  [
    /Permission denied/i,
    'The account that runs PostgreSQL has no access to the data folder or to a file in it. Change the owner or the permissions.',
  ],
  [
    /incompatible with server/i,
    'The data folder belongs to another major version of PostgreSQL. Use the Rowhouse version that created it.',
  ],
  [
    /pre-existing shared memory|Is another postmaster/i,
    'An old PostgreSQL process still uses the data folder. Stop it, then start again.',
  ],
  [
    /could not create shared memory|Cannot allocate memory|out of memory/i,
    'The machine has too little free memory. Stop other programs, or use a larger machine.',
  ],
  [
    /invalid checkpoint|could not locate a valid checkpoint|invalid primary checkpoint/i,
    'The data folder is damaged. Restore a backup.',
  ],
];
