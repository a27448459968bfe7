// The way back from an adoption, while no service runs: the control database of the server goes to the embedded PostgreSQL,
// with everything that has changed since. The projects stay on the server, which is a further one then.
import { prepareControl } from '../../control/control.ts';
import { type Address, openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { EngineError } from '../../servers/engine-error.ts';
import { parseDatabaseUrl } from '../../servers/external.ts';
import { sealAddress } from '../../servers/rows.ts';
import { draftOf, leavingOf, openControlDatabases, retiredOf, stampNow } from './control-databases.ts';
import { type Copied, copyControl } from './copy-control.ts';
import { isThere, type Mark, openMarkAddress, readMark, removeMark } from './mark.ts';
import type { Place } from './move-control.ts';

/** `keptAs`: the control databases that no longer count, on the server and in the data folder. */
export type Undone = Readonly<{
  mark: Mark;
  copied: Copied[];
  keptAs: { there: string; here: string } | null;
}>;

export async function undoAdoption(place: Place): Promise<Undone> {
  const { dataFolder, masterKey, embedded, controlDatabase, onStep = async () => {} } = place;
  const mark = readMark(dataFolder);
  if (!mark)
    throw new EngineError(`The installation in ${dataFolder} was not adopted by another server.`, {
      hint: 'Start it: rowhouse start.',
    });
  const { installation } = mark;
  const url = openMarkAddress(masterKey, mark);
  const address = parseDatabaseUrl(url);
  const [there, here] = [openControlDatabases(address), openControlDatabases(embedded)];
  const leaving = leavingOf(installation);
  const keptAs = { there: retiredOf(installation), here: `rowhouse_before_${stampNow()}` };
  try {
    // The adoption itself was interrupted before it took place.
    if (mark.state === 'adopting' && !(await isThere(masterKey, mark)) && !(await there.exists(leaving))) {
      removeMark(dataFolder);
      return { mark, copied: [], keptAs: null };
    }
    // An earlier attempt was interrupted.
    if (!(await there.exists(leaving))) {
      if ((await there.installationOf(mark.controlDatabase)) !== installation)
        throw new EngineError(`The control database of this installation is not on "${mark.server}".`, {
          hint: 'If it is lost, restore that server from its backups. If it was never used, remove adopted.json from the data folder.',
        });
      await there.rename([[mark.controlDatabase, leaving]]);
    }
    await onStep('draft');
    const draft = draftOf(installation);
    await prepareControl(address, leaving);
    await here.makeDraft(draft);
    const sealed = sealAddress(masterKey, mark.server, url).toString('hex');
    const copied = await copyControl({
      from: { ...address, database: leaving },
      to: { ...embedded, database: draft },
      progress: place.progress,
      signal: place.signal,
      afterwards: [
        sql`insert into servers (name) values ('embedded')`,
        sql`update servers set address = decode(${sql.literal(sealed)}, 'hex') where name = ${sql.literal(mark.server)}`,
        sql`delete from settings where name = 'first_server'`,
      ],
    });
    await bringBack({ ...embedded, database: controlDatabase }, { ...embedded, database: draft });
    await onStep('rename');
    await here.rename([
      [controlDatabase, keptAs.here],
      [draft, controlDatabase],
    ]);
    await onStep('end');
    removeMark(dataFolder);
    await there.rename([[leaving, keptAs.there]]);
    return { mark, copied, keptAs };
  } finally {
    await there.end();
    await here.end();
  }
}

/** Deleted projects that were left behind in the data folder (--drop-deleted), with their keys. */
async function bringBack(from: Address, to: Address): Promise<void> {
  const [before, after] = [openDatabase(from, { max: 1 }), openDatabase(to, { max: 1 })];
  try {
    const [found] = await before.query<{ projects: unknown; keys: unknown }>(sql`
      with left_behind as (
        select * from projects
        where server_id = (select id from servers where name = 'embedded') and deleted_at is not null
      )
      select (select coalesce(json_agg(to_jsonb(left_behind)), '[]') from left_behind) as projects,
             (select coalesce(json_agg(to_jsonb(keys)), '[]') from keys
              where project_id in (select id from left_behind)) as keys`);
    await after.transaction(async (transaction) => {
      await transaction.query(sql`
        insert into projects
        select (jsonb_populate_record(row, jsonb_build_object('server_id', servers.id))).*
        from json_populate_recordset(null::projects, ${JSON.stringify(found?.projects ?? [])}::json) as row, servers
        where servers.name = 'embedded'
        on conflict do nothing`);
      await transaction.query(sql`
        insert into keys
        select row.* from json_populate_recordset(null::keys, ${JSON.stringify(found?.keys ?? [])}::json) as row
        where exists (select from projects where id = row.project_id and deleted_at is not null)
        on conflict do nothing`);
    });
  } finally {
    await before.end();
    await after.end();
  }
}
