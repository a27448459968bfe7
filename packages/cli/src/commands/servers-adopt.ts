// rowhouse servers adopt: from the embedded PostgreSQL to a server of the operator's. The projects move while the service
// runs; the control database follows while it is stopped.
import type { DrainResponse, ProjectsResponse, Server, ServersResponse } from '@rowhouse/api';
import { type ApiOptions, callApi } from '../api.ts';
import { failure } from '../failure.ts';
import { note, show } from '../output.ts';
import { runProgram } from '../service-program.ts';
import { environmentOf } from '../settings.ts';
import { clean, formatFields } from '../table.ts';
import { waitForJob } from './projects-move.ts';

export type AdoptOptions = ApiOptions &
  Record<string, unknown> & {
    maxPauseMs?: number;
    finish?: boolean;
    undo?: boolean;
    dropDeleted?: boolean;
    as?: string;
  };
type Add = (name: string, address: string | undefined, options: ApiOptions) => Promise<Server>;

export async function adopt(
  name: string,
  address: string | undefined,
  options: AdoptOptions,
  add: Add,
): Promise<void> {
  if (options.undo) return undo(name, options);
  if (options.finish) return finish(name, options);
  return moveProjects(name, address, options, add);
}

async function moveProjects(
  name: string,
  address: string | undefined,
  options: AdoptOptions,
  add: Add,
): Promise<void> {
  const { servers } = await callApi<ServersResponse>(options, 'GET', ['servers']);
  const [first] = servers;
  if (first?.name !== 'embedded')
    throw failure(
      'conflict',
      `The first server is "${first?.name}", not the embedded PostgreSQL.`,
      'There is nothing to adopt. rowhouse servers drain moves projects between servers.',
    );
  const known = servers.find((server) => server.name === name);
  const server = known ?? (await add(name, address, options));
  if (!known) note(options, clean(`Added the server "${name}".`));
  if (server.state !== 'ready')
    throw failure(
      'conflict',
      `The server "${name}" is ${server.state}.`,
      server.state === 'draining' ? `End that: rowhouse servers drain ${name} --undo.` : 'Check the server.',
    );
  const body = {
    move: true,
    ...(options.maxPauseMs !== undefined && { max_pause_ms: options.maxPauseMs }),
  };
  const drained = await callApi<DrainResponse>(options, 'POST', ['servers', String(first.id), 'drain'], {
    body,
  });
  const job = drained.job && (await waitForJob(options, drained.job, 'Moving all projects'));
  const result = (job?.result ?? { moved: 0, left_count: 0, left: [] }) as {
    moved: number;
    left_count: number;
    left: { project: string; reason: string }[];
  };
  note(options, `Projects moved: ${result.moved}.`);
  for (const { project, reason } of result.left) note(options, clean(`${project} stays: ${reason}`));
  if (result.left_count > 0)
    throw failure(
      'conflict',
      `${result.left_count} projects are still on the embedded PostgreSQL. The service runs as before.`,
      'Remove the reasons, then run the command again. --max-pause-ms allows longer pauses.',
    );
  const deleted = await callApi<ProjectsResponse>(options, 'GET', ['projects'], {
    query: { status: 'deleted', limit: '1' },
  });
  const answer = { ok: true, server, moved: result.moved, deleted_projects: deleted.projects.length > 0 };
  show(options, answer, () => nextSteps(name, answer.deleted_projects));
}

function nextSteps(name: string, hasDeleted: boolean): string {
  return [
    'The embedded PostgreSQL has no projects any more, and gets none. Next:',
    '',
    '  1. Stop the service.',
    clean(
      `  2. rowhouse servers adopt ${name} --finish   (with --data, if the data folder is not the default)`,
    ),
    '  3. Start the service with the settings that the command prints.',
    ...(hasDeleted
      ? [
          '',
          'There are deleted projects that can still be restored. They do not move. Restore those that you need, and',
          'run this command again; or leave them behind with --drop-deleted in step 2.',
        ]
      : []),
  ].join('\n');
}

type Finished = {
  ok: true;
  server: string;
  hosts: string[];
  control_database: string;
  data: string;
  environment_file: string;
  copied: { table: string; rows: number }[] | null;
};

async function finish(server: string, options: AdoptOptions): Promise<void> {
  const { dropDeleted = false, as: controlDatabase } = options;
  const request = { action: 'finish', server, dropDeleted, ...(controlDatabase && { controlDatabase }) };
  const answer = await run<Finished>(request, options, 'Copying the control database');
  show(options, answer, (done) => {
    const rows = done.copied?.reduce((sum, { rows: count }) => sum + count, 0);
    return [
      formatFields([
        ['server', `${done.server} (${done.hosts.join(', ')})`],
        ['control database', done.control_database],
        ['rows', rows === undefined ? 'copied before' : `${rows}, compared with the originals`],
        ['settings', done.environment_file],
        ['data folder', `${done.data}: unchanged. Without these settings, no service starts on it`],
      ]),
      '',
      'Start the service with the settings in that file. They contain secrets:',
      '',
      '  ROWHOUSE_DATABASE_URL=postgres://…',
      ...(done.control_database === 'rowhouse'
        ? []
        : [`  ROWHOUSE_CONTROL_DATABASE=${done.control_database}`]),
      '  ROWHOUSE_MASTER_KEY=…',
      '',
      clean(`In a shell: set -a; . ${done.environment_file}; set +a; rowhouse start`),
      clean(`To come back: stop the service, then rowhouse servers adopt ${done.server} --undo`),
      'Set ROWHOUSE_BACKUP_URL as well, or back this server up with its own tools.',
    ].join('\n');
  });
}

type Undone = { ok: true; server: string; data: string; kept_as: { there: string; here: string } | null };

async function undo(server: string, options: AdoptOptions): Promise<void> {
  const answer = await run<Undone>({ action: 'undo', server }, options, 'Copying the control database back');
  show(options, answer, ({ data, server: name, kept_as: kept }) =>
    [
      clean(`The installation is in ${data} again. "${name}" is a further server, and has the projects.`),
      ...(kept ? [clean(`No longer used, and yours to drop: the database ${kept.there} on "${name}".`)] : []),
      'Start the service without ROWHOUSE_DATABASE_URL.',
    ].join('\n'),
  );
}

/** With --data. The command itself may have the settings of the service in its environment, as it is or as it will be. */
function run<T extends { ok: true }>(request: object, options: AdoptOptions, about: string): Promise<T> {
  return runProgram<T>('adopt', [JSON.stringify(request)], environmentOf(options), options, about);
}
