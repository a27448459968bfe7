// The statements that are prepared in a session, by their text: as many as are worth their memory there.
import type { FrontendMessages } from './frontend-messages.ts';

/** `columns`: what whoever runs it knows of its rows. `usedAt`: a number that grows with each use of any. */
export type PreparedStatement = {
  name: string;
  columns: unknown;
  parameterTypes: number[] | null;
  usedAt: number;
};

const atMost = 100;
let named = 0;
let uses = 0;

/** With a name that no other has. */
export function newStatement(): PreparedStatement {
  return { name: `s${++named}`, columns: null, parameterTypes: null, usedAt: 0 };
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

  /** Called at each use. What gives way is closed with the next that is sent. */
  keep(text: string, prepared: PreparedStatement): void {
    prepared.usedAt = ++uses;
    const other = this.byText.get(text);
    if (other === prepared) return;
    this.byText.set(text, prepared);
    // Several were sent before the first was there.
    if (other) this.out.closeStatement(other.name);
    if (this.byText.size > atMost) this.closeOldest();
  }

  close(text: string, prepared: PreparedStatement): void {
    // Another may have been kept since.
    if (this.byText.get(text) === prepared) this.byText.delete(text);
    this.out.closeStatement(prepared.name);
  }

  /** They are gone already. */
  clear(): void {
    this.byText.clear();
  }

  private closeOldest(): void {
    let oldest: [string, PreparedStatement] | null = null;
    for (const entry of this.byText) if (!oldest || entry[1].usedAt < oldest[1].usedAt) oldest = entry;
    if (oldest) this.close(...oldest);
  }
}
