// The service's own statements around a caller's statement, sent in the same write.
import type { FrontendMessages } from '../../postgres/wire/frontend-messages.ts';

/** `prepared`: the name of a statement that the session keeps prepared. */
export type Command =
  | string
  | Readonly<{ text: string; parameters: readonly string[] }>
  | Readonly<{ prepared: string; parameters: readonly string[] }>;

export function writeCommands(out: FrontendMessages, commands: readonly Command[]): void {
  for (const command of commands) {
    if (typeof command === 'string') out.parse('', command).bind('', []).execute(0);
    else if ('prepared' in command) out.bind(command.prepared, command.parameters).execute(0);
    else out.parse('', command.text).bind('', command.parameters).execute(0);
  }
}
