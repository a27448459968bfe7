// The service's own statements around a caller's statement, sent in the same write.
import type { FrontendMessages } from '../../postgres/wire/frontend-messages.ts';

export type Command = string | Readonly<{ text: string; parameters: readonly string[] }>;

export function writeCommands(out: FrontendMessages, commands: readonly Command[]): void {
  for (const command of commands) {
    const { text, parameters } = typeof command === 'string' ? { text: command, parameters: [] } : command;
    out.parse('', text).bind('', parameters).execute(0);
  }
}
