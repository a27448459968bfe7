// Statements of the service's own around a caller's, sent in the same write.
import type { FrontendMessages } from '../postgres/frontend-messages.ts';

/** Its text, or the name under which sessions of this kind have it prepared. */
export type Command =
  | string
  | Readonly<{ text: string; parameters: readonly string[] }>
  | Readonly<{ prepared: string; parameters: readonly string[] }>;

export function writeCommands(out: FrontendMessages, commands: readonly Command[]): void {
  for (const command of commands) {
    if (typeof command === 'string') out.parse('', command).bind('', []).execute(0);
    else if ('text' in command) out.parse('', command.text).bind('', command.parameters).execute(0);
    else out.bind(command.prepared, command.parameters).execute(0);
  }
}
