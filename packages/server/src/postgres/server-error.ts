// PostgreSQL's own words about what went wrong, cut to a size that can be passed on.

export type ServerError = Readonly<{
  severity: string;
  state: string;
  message: string;
  detail?: string;
  hint?: string;
  position?: string;
  where?: string;
  schema?: string;
  table?: string;
  column?: string;
  constraint?: string;
  routine?: string;
}>;

/** A statement can raise an error with a message of any size; nobody reads more than this. */
const maxTextBytes = 4096;

const fields: Record<number, keyof ServerError> = {
  86: 'severity', // V: not translated
  67: 'state',
  77: 'message',
  68: 'detail',
  72: 'hint',
  80: 'position',
  87: 'where',
  115: 'schema',
  116: 'table',
  99: 'column',
  110: 'constraint',
  82: 'routine',
};

/**
 * Whether a RAISE chose its SQLSTATE, so that the code says what the author of a function wanted and nothing of what
 * happened. PostgreSQL names the place in its own source at which an error arose, which nothing in SQL can change;
 * and of the languages that a project may use only PL/pgSQL can choose a code.
 */
export function isRaised({ routine }: Pick<ServerError, 'routine'>): boolean {
  return routine !== undefined && raising.has(routine);
}

/** The second one is PL/Python's, on servers where somebody else has installed it. */
const raising = new Set(['exec_stmt_raise', 'PLy_output']);

/**
 * Whether it was a function of ours that raised it. The first line of the context is the function at which it happened; ours
 * have their own search_path, so that the name is always qualified, and a project can make nothing in our schema.
 */
export function isRaisedBy(name: `rowhouse.${string}`, error: ServerError): boolean {
  return isRaised(error) && error.where?.startsWith(`PL/pgSQL function ${name}(`) === true;
}

export function readServerError(bytes: Buffer, start: number, end: number): ServerError {
  const found: Partial<Record<keyof ServerError, string>> = {};
  for (let at = start; at < end && bytes[at] !== 0; ) {
    const name = fields[bytes[at] as number];
    const stop = bytes.indexOf(0, at + 1);
    if (stop < 0) break;
    if (name) found[name] = readText(bytes, at + 1, stop);
    at = stop + 1;
  }
  return { severity: 'ERROR', state: 'XX000', message: 'unknown error', ...found };
}

function readText(bytes: Buffer, start: number, stop: number): string {
  if (stop - start <= maxTextBytes) return bytes.toString('utf8', start, stop);
  // Not in the middle of a character.
  let end = start + maxTextBytes;
  while (end > start && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return `${bytes.toString('utf8', start, end)}…`;
}
