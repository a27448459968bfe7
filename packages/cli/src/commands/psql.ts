// rowhouse psql: psql with the connection of a project. The password goes through the environment of psql, because other
// users of the machine can list arguments.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { ConnectionResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withProjectOption } from '../api.ts';
import { failure } from '../failure.ts';
import { projectOf } from '../profiles.ts';

export function addPsql(program: Command): void {
  withProjectOption(withApiOptions(program.command('psql')))
    .summary('open psql, connected to a project')
    .description(
      'Open psql, connected to a project. Arguments after -- go to psql: rowhouse psql -- --file teas.sql. Needs psql, a ' +
        'key with the scope manage, and a service that takes direct connections from this machine.',
    )
    .argument('[args...]', 'arguments for psql')
    .action(psql);
}

export async function psql(args: string[], options: ApiOptions & { project?: string }): Promise<void> {
  const slug = await projectOf(options);
  const path = ['projects', slug, 'connection'];
  const { connection } = await callApi<ConnectionResponse>(options, 'GET', path);
  const child = spawn('psql', args, {
    stdio: 'inherit',
    env: { ...process.env, ...environmentOf(connection) },
  });
  // Ctrl-C cancels a statement in psql and does not end it.
  const ignore = () => {};
  process.on('SIGINT', ignore);
  process.exitCode = await new Promise<number>((resolve, reject) => {
    child.once('error', () => reject(notInstalled()));
    child.once('exit', (status, signal) => resolve(signal ? 128 + constants.signals[signal] : (status ?? 1)));
  });
  process.off('SIGINT', ignore);
}

/** libpq reads sslmode and channel_binding from here as it does from the address. */
function environmentOf(connection: ConnectionResponse['connection']): NodeJS.ProcessEnv {
  const more = new URL(connection.url).searchParams;
  const [sslmode, binding] = [more.get('sslmode'), more.get('channel_binding')];
  return {
    PGHOST: connection.host,
    PGPORT: String(connection.port),
    PGDATABASE: connection.database,
    PGUSER: connection.user,
    PGPASSWORD: connection.password,
    ...(sslmode && { PGSSLMODE: sslmode }),
    ...(binding && { PGCHANNELBINDING: binding }),
  };
}

function notInstalled() {
  return failure(
    'not_installed',
    'psql is not installed.',
    'Install the client programs of PostgreSQL, or use the shell without it: rowhouse sql',
  );
}
