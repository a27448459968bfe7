// rowhouse snapshots: gives names to moments of a project, to which it can be restored.
import type { Snapshot, SnapshotResponse, SnapshotsResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { askToDelete } from '../ask.ts';
import { show, showList } from '../output.ts';
import { clean, formatTable } from '../table.ts';

export function addSnapshots(program: Command): void {
  const snapshots = program
    .command('snapshots')
    .summary('create, list and delete snapshots of a project')
    .description(
      'Snapshots: moments of a project that have a name. To go back to one: rowhouse projects restore <project> --snapshot <name>.',
    );
  const add = (usage: string, about: string) => withApiOptions(snapshots.command(usage).description(about));

  add('create <project>', 'Give a name to this moment. Everything that is written until now is in it.')
    .argument('<name>', 'name of the snapshot')
    .action(create);
  withListOptions(
    snapshots.command('list <project>').description('List the snapshots of a project, newest first.'),
  ).action(list);
  add('delete <project>', 'Forget the name of a moment. Backups and data stay as they are.')
    .argument('<name>', 'name of the snapshot')
    .option('--yes', 'delete without confirmation')
    .action(remove);
}

async function create(project: string, name: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<SnapshotResponse>(options, 'POST', pathOf(project), { body: { name } });
  show(options, answer, ({ snapshot }) =>
    clean(`Snapshot "${snapshot.name}" of ${project} is the state of ${snapshot.at}.`),
  );
}

async function list(project: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<SnapshotsResponse>(options, 'GET', pathOf(project));
  showList(options, answer, answer.snapshots, {
    table: () => tableOf(answer.snapshots),
    empty: `There are no snapshots yet. Create one: rowhouse snapshots create ${project} <name>`,
  });
}

async function remove(project: string, name: string, options: ApiOptions & { yes?: boolean }): Promise<void> {
  if (!options.yes) await askToDelete(options, name, async () => `the snapshot "${name}" of ${project}`);
  const answer = await callApi<SnapshotsResponse>(options, 'DELETE', [...pathOf(project), name]);
  show(options, answer, () => clean(`Snapshot "${name}" of ${project} is deleted.`));
}

function pathOf(project: string): string[] {
  return ['projects', project, 'snapshots'];
}

function tableOf(snapshots: readonly Snapshot[]): string {
  return formatTable(
    [{ title: 'NAME', max: 60 }, { title: 'TIME' }, { title: 'RESTORABLE' }],
    // To the millisecond: `projects restore --to` takes it as it is.
    snapshots.map(({ name, at, is_restorable: is }) => [name, at, is ? 'yes' : 'no']),
  );
}
