// Which commands match what was typed, the best first.
import type { IconName } from '../ui/icons.tsx';

export type Command = {
  key: string;
  label: string;
  /** More words to find it by. */
  words?: string;
  kind: 'Screen' | 'Table' | 'Query' | 'Project' | 'Action';
  icon: IconName;
  run: () => void;
};

const shownMax = 40;

export function rankCommands(commands: readonly Command[], search: string): Command[] {
  const wanted = search.trim().toLowerCase();
  if (wanted === '') return commands.slice(0, shownMax);
  return commands
    .map((command) => ({
      command,
      score: scoreOf(`${command.label} ${command.words ?? ''}`.toLowerCase(), wanted),
    }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, shownMax)
    .map(({ command }) => command);
}

/** A prefix before the start of a word, before any part, before letters in the same order. 0: no match. */
function scoreOf(text: string, wanted: string): number {
  if (text.startsWith(wanted)) return 4;
  const at = text.indexOf(wanted);
  if (at > 0) return /[\s._-]/.test(text[at - 1] ?? '') ? 3 : 2;
  let from = 0;
  for (const letter of wanted) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return 0;
  }
  return 1;
}
