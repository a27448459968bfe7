// The prepared statements of a session, by text. Their number is limited, because each takes memory in PostgreSQL.
import type { FrontendMessages } from './frontend-messages.ts';

/**
 * `number`: they are counted. `madeAt`: when it was to be parsed. `columns`: what is known about its rows. `usedAt`: a counter that
 * grows with each use of any statement. `isClosed`: its last uses may still be on their way.
 */
export type PreparedStatement = {
  readonly name: string;
  readonly number: number;
  readonly madeAt: number;
  columns: unknown;
  parameterTypes: number[] | null;
  usedAt: number;
  isClosed: boolean;
};

const maxStatements = 100;
let lastNumber = 0;
let useCount = 0;

/** Has a unique name. */
export function newStatement(): PreparedStatement {
  const number = ++lastNumber;
  const madeAt = performance.now();
  return {
    name: `s${number}`,
    number,
    madeAt,
    columns: null,
    parameterTypes: null,
    usedAt: 0,
    isClosed: false,
  };
}

export class PreparedStatements {
  private readonly byText = new Map<string, PreparedStatement>();
  /**
   * How long one is used. PostgreSQL finds out what a text means, such as the types of its parameters, when it parses it, and never
   * again. DDL in a session that this process does not see can give it another meaning.
   */
  kept = { ms: Number.POSITIVE_INFINITY };
  private readonly out: FrontendMessages;
  private outdatedUpTo = 0;

  constructor(out: FrontendMessages) {
    this.out = out;
  }

  get(text: string): PreparedStatement | undefined {
    const found = this.byText.get(text);
    if (!found || (found.number > this.outdatedUpTo && performance.now() - found.madeAt < this.kept.ms))
      return found;
    this.close(text, found);
    return undefined;
  }

  /** The tables have changed: what has been parsed by now is not used again. */
  outdate(): void {
    this.outdatedUpTo = lastNumber;
  }

  /** Called at each use. An evicted statement is closed with the next exchange. */
  keep(text: string, prepared: PreparedStatement): void {
    // Parsed before the tables changed, and bound after it.
    if (prepared.number <= this.outdatedUpTo && !prepared.isClosed) this.close(text, prepared);
    if (prepared.isClosed) return;
    prepared.usedAt = ++useCount;
    const other = this.byText.get(text);
    if (other === prepared) return;
    this.byText.set(text, prepared);
    // Several Parse messages were sent before the first was answered.
    if (other) {
      other.isClosed = true;
      this.out.closeStatement(other.name);
    }
    if (this.byText.size > maxStatements) this.closeOldest();
  }

  close(text: string, prepared: PreparedStatement): void {
    prepared.isClosed = true;
    // A newer one may have replaced it.
    if (this.byText.get(text) === prepared) this.byText.delete(text);
    this.out.closeStatement(prepared.name);
  }

  /** For statements that PostgreSQL has already deallocated. */
  clear(): void {
    this.byText.clear();
  }

  private closeOldest(): void {
    let oldest: [string, PreparedStatement] | null = null;
    for (const entry of this.byText) if (!oldest || entry[1].usedAt < oldest[1].usedAt) oldest = entry;
    if (oldest) this.close(...oldest);
  }
}
