// The report after a restore to an earlier time: access that has to be ended again, and projects that are lost.
import { clean, formatTable } from './table.ts';
import { formatTime } from './when.ts';

type Key = { project: string | null; kind: string; name: string; start: string };
type Changes = {
  until: string | null;
  projects_again: { slug: string; name: string; ended_at: string | null; command: string }[];
  keys_again: (Key & { id: string; ended_at: string | null; command: string })[];
  projects_deleted: { slug: string; name: string; command: string }[];
  projects_lost: { slug: string; name: string; created_at: string }[];
  keys_lost: Key[];
};
/** What has changed between the restored time and the last one in the backups. */
export type Since = Changes | { problem: string };

/** Paragraphs. */
export function describeSince(since: Since): string[] {
  if ('problem' in since) {
    return [
      clean(`Changes after the restored time could not be determined: ${since.problem}`),
      'Keys that were revoked and projects that were deleted since then work again. Compare with your own records: rowhouse keys list <project>',
    ];
  }
  const { projects_again: projects, keys_again: keys } = since;
  const sections = [
    listOf(
      'These keys were revoked or replaced after the restored time, and WORK AGAIN. End them:',
      ['PROJECT', 'KEY', 'BEGINS', 'ENDED', 'COMMAND'],
      keys.map((key) => [
        key.project ?? '(account)',
        key.name,
        key.start,
        formatTime(key.ended_at),
        key.command,
      ]),
    ),
    listOf(
      'These projects were deleted after the restored time, and EXIST AGAIN. Delete those that you do not want:',
      ['PROJECT', 'NAME', 'DELETED', 'COMMAND'],
      projects.map(({ slug, name, ended_at: at, command }) => [slug, name, formatTime(at), command]),
    ),
    listOf(
      'These projects were deleted at the restored time and are deleted again. Bring them back:',
      ['PROJECT', 'NAME', 'COMMAND'],
      since.projects_deleted.map(({ slug, name, command }) => [slug, name, command]),
    ),
    listOf(
      'These projects were created after the restored time and are lost:',
      ['PROJECT', 'NAME', 'CREATED'],
      since.projects_lost.map(({ slug, name, created_at: at }) => [slug, name, formatTime(at)]),
    ),
    listOf(
      'These keys were issued after the restored time and do not work any more:',
      ['PROJECT', 'KEY', 'KIND', 'BEGINS'],
      since.keys_lost.map(({ project, name, kind, start }) => [project ?? '(account)', name, kind, start]),
    ),
  ].flat();
  const until = since.until === null ? 'the last change in the backups' : formatTime(since.until);
  if (sections.length === 0)
    return [clean(`No project and no key was created, deleted or revoked between then and ${until}.`)];
  return [...sections, clean(`Changes after ${until} are not in the backups, and not in this list.`)];
}

function listOf(heading: string, titles: readonly string[], rows: (string | number)[][]): string[] {
  if (rows.length === 0) return [];
  const columns = titles.map((title) => ({ title, ...(['NAME', 'KEY'].includes(title) && { max: 40 }) }));
  return [`${heading}\n${formatTable(columns, rows)}`];
}
