// rowhouse servers: adds, lists, drains, adopts and removes the PostgreSQL servers on which projects live.
import type {
  AddServer,
  DrainResponse,
  RemovedServerResponse,
  Server,
  ServerResponse,
  ServersResponse,
} from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { askForName } from '../ask.ts';
import { failure } from '../failure.ts';
import { positive } from '../numbers.ts';
import { note, show, showList } from '../output.ts';
import { withSettings } from '../settings.ts';
import { clean, counted, formatFields, formatTable } from '../table.ts';
import { waitForJob } from './projects-move.ts';
import { adopt } from './servers-adopt.ts';

export function addServers(program: Command): void {
  const servers = program
    .command('servers')
    .summary('add, list, drain, adopt and remove PostgreSQL servers')
    .description(
      'Add, list, drain, adopt and remove the PostgreSQL servers on which projects live. Needs an account key.',
    );
  const add = (usage: string, about: string) => withApiOptions(servers.command(usage).description(about));

  add(
    'add <name> [address]',
    'Add a server: postgres://user:password@host:5432/postgres. The address contains a password, so set it in ROWHOUSE_SERVER_URL instead.',
  )
    .option('--label <label...>', 'labels that projects can ask for')
    .option('--capacity-mb <number>', 'megabytes for project databases', positive)
    .option('--capacity-connections <number>', 'most connections that serve requests', positive)
    .action(addOne);
  withListOptions(
    servers.command('list').description('List servers with their state, use and labels.'),
  ).action(list);
  add(
    'drain <name>',
    'Place no new projects on a server, and move those that it has to others, a few at a time. Waits until that is done.',
  )
    .option('--keep-projects', 'move none of its projects')
    .option(
      '--max-pause-ms <number>',
      'leave a project whose requests would wait longer (default: 20000)',
      positive,
    )
    .option('--undo', 'place new projects on it again')
    .action(drain);
  withSettings(
    add(
      'adopt <name> [address]',
      'Leave the embedded PostgreSQL: add the server if it is not known, move all projects to it, and then, with --finish ' +
        'while the service is stopped, make it the first server. The data folder is kept as a way back.',
    ),
    ['ROWHOUSE_DATA'],
  )
    .option(
      '--max-pause-ms <number>',
      'leave a project whose requests would wait longer (default: 20000)',
      positive,
    )
    .option('--finish', 'the last step, while the service is stopped: copy the control database')
    .option('--drop-deleted', 'with --finish: leave deleted projects behind, in the data folder')
    .option('--as <name>', 'with --finish: the name of the control database there (default: as it is now)')
    .option('--undo', 'come back to the data folder, while the service is stopped')
    .action((name, address, options) => adopt(name, address, options, insert));
  add(
    'attach <name>',
    'Use a server again that "rowhouse restore" has detached. No other service may use it: the old one must be stopped for good.',
  ).action(attach);
  add('remove <name>', 'Remove a server that has no projects.')
    .option('--lost', 'the server will never answer again: give up all its projects')
    .option('--yes', 'with --lost: without confirmation')
    .action(remove);
}

type AddOptions = ApiOptions & { label?: string[]; capacityMb?: number; capacityConnections?: number };

async function addOne(name: string, given: string | undefined, options: AddOptions): Promise<void> {
  const server = await insert(name, given, options);
  show(options, { ok: true, server }, () => formatFields(fieldsOf(server)));
}

async function insert(name: string, given: string | undefined, options: AddOptions): Promise<Server> {
  const address = given ?? process.env.ROWHOUSE_SERVER_URL;
  if (!address)
    throw failure(
      'invalid_request',
      'The address of the server is missing.',
      'Set ROWHOUSE_SERVER_URL to postgres://user:password@host:5432/postgres, or pass it after the name.',
    );
  const body: AddServer = {
    name,
    address,
    ...(options.label && { labels: options.label }),
    ...(options.capacityMb !== undefined && { capacity_mb: options.capacityMb }),
    ...(options.capacityConnections !== undefined && { capacity_connections: options.capacityConnections }),
  };
  return (await callApi<ServerResponse>(options, 'POST', ['servers'], { body })).server;
}

async function list(options: ApiOptions): Promise<void> {
  const answer = await callApi<ServersResponse>(options, 'GET', ['servers']);
  showList(options, answer, answer.servers, {
    table: () => tableOf(answer.servers),
    empty: 'There are no servers.',
  });
}

type DrainOptions = ApiOptions & { undo?: boolean; keepProjects?: boolean; maxPauseMs?: number };

async function drain(name: string, options: DrainOptions): Promise<void> {
  const { id, projects, state } = await find(options, name);
  if (options.undo) {
    if (state === 'detached')
      throw failure('conflict', `The server "${name}" is detached.`, `Use: rowhouse servers attach ${name}.`);
    return makeReady(id, options);
  }
  const body = {
    ...(!options.keepProjects && { move: true }),
    ...(options.maxPauseMs !== undefined && { max_pause_ms: options.maxPauseMs }),
  };
  const answer = await callApi<DrainResponse>(options, 'POST', ['servers', String(id), 'drain'], { body });
  const job = answer.job && (await waitForJob(options, answer.job, `Moving ${projects} projects`));
  show(options, { ...answer, ...(job && { job }) }, ({ server }) => formatFields(fieldsOf(server)));
  if (!job) return;
  const { moved, left } = job.result as { moved: number; left: { project: string; reason: string }[] };
  note(options, `Projects moved: ${moved}.`);
  for (const { project, reason } of left) note(options, clean(`${project} stays: ${reason}`));
}

async function attach(name: string, options: ApiOptions): Promise<void> {
  const { id, state } = await find(options, name);
  if (state !== 'detached')
    throw failure(
      'conflict',
      `The server "${name}" is not detached.`,
      'rowhouse servers list shows the states.',
    );
  await makeReady(id, options);
}

async function makeReady(id: number, options: ApiOptions): Promise<void> {
  const body = { state: 'ready' };
  const answer = await callApi<ServerResponse>(options, 'PATCH', ['servers', String(id)], { body });
  show(options, answer, ({ server }) => formatFields(fieldsOf(server)));
}

async function remove(name: string, options: ApiOptions & { lost?: true; yes?: true }): Promise<void> {
  const server = await find(options, name);
  if (options.lost) await confirmLoss(server, options);
  const query = options.lost ? { lost: 'true' } : {};
  const target = ['servers', String(server.id)];
  const answer = await callApi<RemovedServerResponse>(options, 'DELETE', target, { query });
  show(options, answer, () => clean(`The server "${name}" is removed.`));
  const { projects, deleted_projects: deleted } = answer.given_up;
  if (options.lost)
    note(options, `Given up: ${counted(projects, 'project')} and ${counted(deleted, 'deleted project')}.`);
  if (answer.left_slot !== null)
    note(
      options,
      `The server did not answer, so its replication slot may still be there. If the server comes back, drop it there, ` +
        `or its disk fills up: select pg_drop_replication_slot('${answer.left_slot}');`,
    );
}

/** Refuses a server that answers before it asks: nobody should confirm what the service would refuse. */
async function confirmLoss(
  { name, state, projects }: Server,
  options: ApiOptions & { yes?: true },
): Promise<void> {
  if (state === 'ready' || state === 'draining')
    throw failure(
      'conflict',
      `The server "${name}" answers, so it is not lost.`,
      `Use: rowhouse servers drain ${name}, then rowhouse servers remove ${name}.`,
    );
  if (options.yes) return;
  const question =
    `The server "${name}" has ${counted(projects, 'project')}. Giving it up loses them for good, ` +
    'and deleted ones that could be restored. Restore those that you need on another server first.';
  await askForName(options, name, 'give up', question);
}

async function find(options: ApiOptions, name: string): Promise<Server> {
  const { servers } = await callApi<ServersResponse>(options, 'GET', ['servers']);
  const found = servers.find((server) => server.name === name);
  if (!found)
    throw failure('server_not_found', `There is no server "${name}".`, 'rowhouse servers list shows them.');
  return found;
}

function fieldsOf(server: Server): [string, string | number][] {
  return [
    ['id', server.id],
    ['name', server.name],
    ['state', server.state],
    ['hosts', server.hosts.join(', ')],
    ['labels', server.labels.join(', ') || '-'],
    ['capacity', server.capacity_mb === null ? '-' : `${server.capacity_mb} MB`],
    ['connections', server.capacity_connections ?? '-'],
    ['used', `${server.used_mb} MB`],
    ['projects', server.projects],
  ];
}

function tableOf(servers: readonly Server[]): string {
  const columns = [
    ...[{ title: 'NAME' }, { title: 'STATE' }, { title: 'HOSTS' }],
    ...[
      { title: 'PROJECTS', align: 'right' as const },
      { title: 'USED MB', align: 'right' as const },
    ],
    ...[{ title: 'CAPACITY MB', align: 'right' as const }, { title: 'LABELS' }],
  ];
  return formatTable(
    columns,
    servers.map((one) => [
      ...[one.name, one.state, one.hosts.join(', '), one.projects, one.used_mb],
      ...[one.capacity_mb ?? '-', one.labels.join(', ') || '-'],
    ]),
  );
}
