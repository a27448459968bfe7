// Console sessions in Markdown: commands with the output that they shall have, and what came out when they ran.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';

export type Ran = { command: string; shown: string; output: string };

/** README and docs, as paths from the root of the repository. */
export function pagesIn(root: string): string[] {
  const docs = readdirSync(path.join(root, 'docs')).filter((name) => name.endsWith('.md'));
  return ['README.md', ...docs.map((name) => `docs/${name}`)];
}

/** Pages without a console session. The programs in client.md are run by the client's own tests. */
export const withoutSessions = [
  'docs/README.md',
  'docs/architecture.md',
  'docs/client.md',
  'docs/performance.md',
  'docs/security.md',
];

/** docs/fleet.md has steps that need several servers. patroni.long.alone.test.ts runs them. */
export const fleetSteps = '## From one machine to a fleet';

/** A section of a page with its heading, and the page without it. */
export function cutSection(markdown: string, heading: string): { section: string; rest: string } {
  const [before = '', after] = markdown.split(`${heading}\n`);
  if (after === undefined) return { section: '', rest: markdown };
  const end = after.search(/^## /m);
  const until = end === -1 ? after.length : end;
  return { section: `${heading}\n${after.slice(0, until)}`, rest: before + after.slice(until) };
}

/** Runs the commands of a page one after another in one shell. `edit` puts real addresses and keys into them. */
export async function runConsole(
  markdown: string,
  edit: (command: string) => string,
  options: { cwd: string; env?: NodeJS.ProcessEnv },
): Promise<{ ran: Ran[]; problems: string; status: number | null }> {
  const sessions = sessionsIn(markdown);
  const script = sessions.map(({ command }) => `${edit(command)}\nprintf '\\n@@@\\n'`).join('\n');
  const bash = spawn('bash', ['-c', script], { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, problems, [status]] = await Promise.all([
    text(bash.stdout),
    text(bash.stderr),
    once(bash, 'close'),
  ]);
  const outputs = stdout.split(/\n@@@\n/).map((output) => output.trim());
  return {
    ran: sessions.map((session, index) => ({ ...session, output: outputs[index] ?? '' })),
    problems,
    status,
  };
}

/** Commands after `$ ` with the output that follows each. */
export function sessionsIn(markdown: string): { command: string; shown: string }[] {
  const blocks = [...markdown.matchAll(/^```console\n(.*?)^```$/gms)].map(([, block = '']) => block);
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .filter(Boolean)
      .map((part) => {
        const [command = '', ...shown] = part.trimEnd().split('\n');
        return { command, shown: shown.join('\n') };
      }),
  );
}

/** … stands for anything. */
export const asPattern = (shown: string) =>
  new RegExp(`^${shown.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/ *… */g, '.*')}$`, 's');
