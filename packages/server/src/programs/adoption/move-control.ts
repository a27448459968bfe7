// The last step of `rowhouse servers adopt`, while no service runs: the control database goes from the embedded PostgreSQL to
// a server of the operator's, which becomes the first server. README.md has the steps, and what a crash at each of them leaves.
import { openControl, prepareControl } from '../../control/control.ts';
import { findSetting } from '../../control/settings.ts';
import { type Address, openDatabase, type Queryable } from '../../postgres/admin/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { EngineError } from '../../servers/engine-error.ts';
import { checkExternal, parseDatabaseUrl } from '../../servers/external.ts';
import { openAddress, readServers, type ServerRow } from '../../servers/rows.ts';
import { readFacts } from '../../servers/server.ts';
import {
  type ControlDatabases,
  draftOf,
  leavingOf,
  openControlDatabases,
  retiredOf,
} from './control-databases.ts';
import { type Copied, copyControl } from './copy-control.ts';
import { isThere, type Mark, openMarkAddress, readMark, sealMarkAddress, writeMark } from './mark.ts';

export type Place = Readonly<{
  dataFolder: string;
  masterKey: Buffer;
  /** The address of the embedded PostgreSQL. */
  embedded: Address;
  controlDatabase: string;
  progress: (fraction: number) => void;
  signal: AbortSignal;
  /** For tests: called before each step, which can fail there. */
  onStep?: (step: string) => Promise<void>;
}>;

type Options = Readonly<{
  server: string;
  /** The name of the control database there. */
  controlThere: string;
  /** Leaves deleted projects behind, in the data folder. */
  dropDeleted: boolean;
}>;

/** `copied` is null if an earlier attempt has done it. */
export type Adopted = Readonly<{ mark: Mark; url: string; copied: Copied[] | null }>;

export async function adopt(place: Place, options: Options): Promise<Adopted> {
  const { dataFolder, masterKey, embedded, controlDatabase, onStep = async () => {} } = place;
  const earlier = readMark(dataFolder);
  if (earlier && (earlier.state === 'adopted' || (await isThere(masterKey, earlier)))) {
    const mark: Mark = { ...earlier, state: 'adopted' };
    writeMark(dataFolder, mark);
    return { mark, url: openMarkAddress(masterKey, mark), copied: null };
  }
  await prepareControl(embedded, controlDatabase);
  const control = openControl(embedded, controlDatabase);
  const found = await examine(control, masterKey, options).finally(() => control.end());
  const address = parseDatabaseUrl(found.url);
  const there = openControlDatabases(address);
  try {
    await checkName(there, options.controlThere, found.installation);
    const [draft, leaving] = [draftOf(found.installation), leavingOf(found.installation)];
    // The way back was taken before, and interrupted after its end. An undo must not find it.
    if (await there.exists(leaving)) await there.rename([[leaving, retiredOf(found.installation)]]);
    await onStep('draft');
    await there.makeDraft(draft);
    const copied = await copyControl({
      progress: place.progress,
      signal: place.signal,
      afterwards: repoint(found, options.server),
      from: { ...embedded, database: controlDatabase },
      to: { ...address, database: draft },
    });
    const mark: Mark = {
      state: 'adopting',
      server: options.server,
      hosts: found.hosts,
      installation: found.installation,
      controlDatabase: options.controlThere,
      address: sealMarkAddress(masterKey, options.server, found.url),
      at: new Date().toISOString(),
    };
    await onStep('mark');
    // From here on a start in the folder asks the server which of the two counts.
    writeMark(dataFolder, mark);
    await onStep('rename');
    await there.rename([[draft, options.controlThere]]);
    await onStep('end');
    const done: Mark = { ...mark, state: 'adopted' };
    writeMark(dataFolder, done);
    return { mark: done, url: found.url, copied };
  } finally {
    await there.end();
  }
}

type Found = Readonly<{
  installation: string;
  embeddedId: number;
  serverId: number;
  hosts: readonly string[];
  url: string;
}>;

/** Everything that keeps the installation from leaving, before anything is changed. */
async function examine(
  control: Queryable,
  masterKey: Buffer,
  { server, dropDeleted }: Options,
): Promise<Found> {
  const installation = await findSetting(control, 'installation');
  const rows = await readServers(control);
  const embedded = rows.find(({ name }) => name === 'embedded');
  const target = rows.find(({ name }) => name === server);
  const url = target ? openAddress(masterKey, target) : null;
  if (installation === null || !embedded)
    throw new EngineError('This data folder has no projects yet, so there is nothing to adopt.', {
      hint: 'Start the service with ROWHOUSE_DATABASE_URL instead.',
    });
  if (!target || url === null)
    throw new EngineError(`There is no server "${server}" that could adopt this installation.`, {
      hint: 'Start the service, and run the command without --finish first: it adds the server and moves the projects.',
    });
  await checkProjects(control, embedded, dropDeleted);
  const { hosts } = target;
  await checkServer(control, target, url);
  return { installation, embeddedId: embedded.id, serverId: target.id, hosts, url };
}

async function checkProjects(control: Queryable, { id }: ServerRow, dropDeleted: boolean): Promise<void> {
  const again =
    'Start the service, and run the command without --finish: it moves the projects. Then stop the service, and try again.';
  const [unsettled] = await control.query(sql`select from moves union all select from swaps limit 1`);
  if (unsettled)
    throw new EngineError('A move, reset, promotion or restore of a project is not complete.', {
      hint: again,
    });
  const projects = await control.query<{ slug: string; isDeleted: boolean }>(sql`
    select slug, deleted_at is not null as "isDeleted" from projects where server_id = ${id} order by slug`);
  const live = projects.filter(({ isDeleted }) => !isDeleted);
  if (live.length > 0)
    throw new EngineError(`The embedded PostgreSQL still has ${live.length} projects: ${namesOf(live)}.`, {
      hint: again,
    });
  if (projects.length > 0 && !dropDeleted)
    throw new EngineError(
      `The embedded PostgreSQL has ${projects.length} deleted projects that can still be restored: ${namesOf(projects)}.`,
      {
        hint: 'Start the service and restore those that you need; they are moved then. Or leave all of them behind in the data folder: --drop-deleted.',
      },
    );
}

function namesOf(projects: readonly { slug: string }[]): string {
  const more = projects.length > mostNames ? ` and ${projects.length - mostNames} others` : '';
  return (
    projects
      .slice(0, mostNames)
      .map(({ slug }) => slug)
      .join(', ') + more
  );
}
const mostNames = 20;

/** Its address must lead to the server on which the projects are. */
async function checkServer(control: Queryable, { id, name }: ServerRow, url: string): Promise<void> {
  const address = parseDatabaseUrl(url);
  await checkExternal(address);
  const database = openDatabase(address, { max: 1 });
  const { systemIdentifier } = await readFacts(database).finally(() => database.end());
  const [same] = await control.query(
    sql`select from servers where id = ${id} and system_identifier = ${systemIdentifier}`,
  );
  if (!same)
    throw new EngineError(`The address of "${name}" now leads to a different PostgreSQL server.`, {
      hint: 'Check where the address leads. The projects are on the server that was added under this name.',
    });
}

async function checkName(there: ControlDatabases, name: string, installation: string): Promise<void> {
  if (!(await there.exists(name))) return;
  const isOurs = (await there.installationOf(name).catch(() => null)) === installation;
  throw new EngineError(
    isOurs
      ? `The server has a control database "${name}" of this installation already, from an earlier adoption.`
      : `The server already has a database "${name}".`,
    {
      hint: isOurs
        ? 'If the installation in the data folder is the one that counts, rename or drop that database.'
        : 'Choose another name for the control database: --as <name>.',
    },
  );
}

/** The changes on the new first server. The settings of backups describe the data folder, so they stay behind. */
function repoint({ embeddedId, serverId }: Found, server: string): Sql[] {
  const id = sql.literal(String(embeddedId));
  return [
    sql`delete from projects where server_id = ${id}::int and deleted_at is not null`,
    sql`delete from spares where server_id = ${id}::int`,
    sql`delete from servers where id = ${id}::int`,
    sql`update servers set address = null, state = 'active' where id = ${sql.literal(String(serverId))}::int`,
    sql`delete from settings where name ~ '^(backup|drill)' or name = 'first_server'`,
    sql`insert into settings (name, value) values ('first_server', ${sql.literal(server)})`,
  ];
}
