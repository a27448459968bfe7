// The prepared statements of a session, by text. Their number is limited, because each takes memory in PostgreSQL.
import type { FrontendMessages } from './frontend-messages.ts';

/** `columns`: what is known about its rows. `usedAt`: a counter that grows with each use of any statement. */
export type PreparedStatement = {
  name: string;
  columns: unknown;
  parameterTypes: number[] | null;
  usedAt: number;
};

const maxStatements = 100;
let lastNumber = 0;
let useCount = 0;

/** Has a unique name. */
export function newStatement(): PreparedStatement {
  return { name: `s${++lastNumber}`, columns: null, parameterTypes: null, usedAt: 0 };
}

export class PreparedStatements {
  private readonly byText = new Map<string, PreparedStatement>();
  private readonly out: FrontendMessages;

  constructor(out: FrontendMessages) {
    this.out = out;
  }

  get(text: string): PreparedStatement | undefined {
    return this.byText.get(text);
  }

  /** Called at each use. An evicted statement is closed with the next exchange. */
  keep(text: string, prepared: PreparedStatement): void {
    prepared.usedAt = ++useCount;
    const other = this.byText.get(text);
    if (other === prepared) return;
    this.byText.set(text, prepared);
    // Several Parse messages were sent before the first was answered.
    if (other) this.out.closeStatement(other.name);
    if (this.byText.size > maxStatements) this.closeOldest();
  }

  close(text: string, prepared: PreparedStatement): void {
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
