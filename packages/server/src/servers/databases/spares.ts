// Spare databases: created ahead of time, so that creating a project is a single statement in the control database.
// The row of a spare is committed before its database is created; only a finished spare can be claimed.

import type { Control } from '../../control/control.ts';
import { newId } from '../../control/new-id.ts';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { AccountSlots } from '../../lib/account-slots.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import type { Server } from '../server.ts';
import { databaseOf } from './names.ts';
import { provision } from './provision.ts';

export type Spares = {
  /** Makes one now, for a waiting caller. */
  makeOne(accountId: string): Promise<void>;
  /** Fills up without waiting; called after each claim and by the background work. */
  fill(): void;
  stop(): Promise<void>;
};

type Options = {
  control: Control;
  server: Server;
  /** How many to have ready now. */
  wanted: () => number;
  onError: (error: unknown) => void;
};

/** More at once gain little, and slow down the statements of all projects. */
const limits = { all: 2, waiting: 60, waitingPerAccount: 40 };
/** Making one takes well under a second; after this long its process has died. */
const abandonedAfter = sql`interval '2 minutes'`;

export function keepSpares({ control, server, wanted, onError }: Options): Spares {
  const slots = new AccountSlots('new projects', limits);
  let filling: Promise<void> | null = null;
  let stopped = false;

  const make = async () => {
    try {
      await makeSpare(control, server);
    } catch (error) {
      // No project exists yet, so for the caller the outcome is certain.
      throw error instanceof RowhouseError && error.code === 'outcome_unknown'
        ? errors.unavailable(error)
        : error;
    }
  };

  const fillUp = async () => {
    while (!stopped && slots.waits === 0 && (await countSpares(control, server)) < wanted())
      await slots.take(null, make);
  };

  return {
    makeOne: (accountId) => slots.take(accountId, make),
    fill: () => {
      if (stopped || filling) return;
      filling = fillUp()
        .catch(onError)
        .finally(() => {
          filling = null;
        });
    },
    stop: async () => {
      stopped = true;
      await filling;
    },
  };
}

/** For a `with` clause: claims the oldest spare. No two callers get the same one, and none waits for another. */
export function claimSpare(server: Server): Sql {
  return sql`
    delete from spares
    where id = (
      select id from spares
      where state = 'ready' and server_id = ${server.id} and template = ${server.template}
      order by created_at limit 1 for update skip locked
    )
    returning id, server_id, template, empty_bytes`;
}

/**
 * Notes to drop what a crash or an upgrade left: unfinished spares, spares without a database, spares of an older version. The copy
 * of a project that is being moved is not one of them: a process of the earlier version may be filling it, and the move removes it.
 */
export async function noteLeftSpares(control: Control, server: Server): Promise<void> {
  await control.query(sql`
    update spares set state = 'dropping'
    where server_id = ${server.id} and state <> 'dropping' and id not in (select copy_id from moves)
      and (template <> ${server.template}
           or (state = 'making' and created_at < now() - ${abandonedAfter}))`);
  const ready = await control.query<{ id: string }>(
    sql`select id from spares where server_id = ${server.id} and state = 'ready'`,
  );
  const present = await server.maintenance.query<{ name: string }>(
    sql`select datname as name from pg_database where datconnlimit <> -2`,
  );
  const names = new Set(present.map(({ name }) => name));
  const missing = ready.filter(({ id }) => !names.has(databaseOf(id))).map(({ id }) => id);
  if (missing.length === 0) return;
  // Only rows that were not claimed in the meantime: a claimed spare is a project's database.
  await control.query(sql`update spares set state = 'dropping' where id = any (${missing}::text[])`);
}

export async function countSpares(control: Control, server: Server): Promise<number> {
  const [row] = await control.query<{ count: number }>(sql`
    select count(*)::int as count from spares
    where server_id = ${server.id} and template = ${server.template}
      and (state = 'ready' or (state = 'making' and created_at > now() - ${abandonedAfter}))`);
  return row?.count ?? 0;
}

async function makeSpare(control: Control, server: Server): Promise<void> {
  const id = newId();
  await control.change(sql`
    insert into spares (id, server_id, state, template) values (${id}, ${server.id}, 'making', ${server.template})`);
  const { emptyBytes } = await provision(server, id);
  await control.change(sql`
    update spares set state = 'ready', empty_bytes = ${emptyBytes} where id = ${id} and state = 'making'`);
}
