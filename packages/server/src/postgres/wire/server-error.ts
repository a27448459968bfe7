// PostgreSQL's error messages, truncated to a size that can be passed on.

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

/** A statement can raise an error with a message of any size. */
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
 * Whether a RAISE chose the SQLSTATE. Then the code says what the author of a function wanted, not what happened.
 * PostgreSQL names the routine in its own source that reported an error, and SQL cannot change that name. Of the
 * languages that a project may use, only PL/pgSQL can choose a code.
 */
export function isRaised({ routine }: Pick<ServerError, 'routine'>): boolean {
  return routine !== undefined && raisingRoutines.has(routine);
}

/** The second belongs to PL/Python, on servers where an operator has installed it. */
const raisingRoutines = new Set(['exec_stmt_raise', 'PLy_output']);

/**
 * Whether one of the service's functions raised it. The first line of the context names the function that failed. Our
 * functions set their own search_path, so the name is always qualified. A project cannot create objects in our schema.
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
  // Not within a character.
  let end = start + maxTextBytes;
  while (end > start && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return `${bytes.toString('utf8', start, end)}…`;
}
