// A role that one process of the installation has at a time. It is an advisory lock, in a session that PostgreSQL ends if
// its process falls silent. So the role moves within three seconds, whether its process has died or hangs, or its machine
// is cut off.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pause, within } from '../lib/pause.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';
import { type Lock, tryLock } from './lock-names.ts';

/** How often the holder shows that it is alive. */
const beatMs = 600;
/** How often other processes ask for the role. */
const askMs = 300;
/** PostgreSQL ends the session of a holder that was silent for this long. */
const silentMs = 2_500;
/** The holder gives up before that, this long after a beat without an answer: with `beatMs`, well below `silentMs`. */
const answerMs = 1_500;

/** Waits for the role and runs `work` until `stopping`, or until the role is lost. */
export async function holdLease(
  control: Control,
  role: Lock,
  stopping: AbortSignal,
  work: (ended: AbortSignal) => Promise<void>,
): Promise<void> {
  await control.session(async (session, lost) => {
    const closed = AbortSignal.any([stopping, lost]);
    while (!(await tryLock(session, role))) {
      await pause(askMs, closed);
      if (closed.aborted) return;
    }
    await session.query(sql`select set_config('idle_session_timeout', ${String(silentMs)}, false)`);
    const silent = new AbortController();
    const ended = AbortSignal.any([closed, silent.signal]);
    const beating = beat(session, role.name, ended).catch(() => silent.abort());
    try {
      await work(ended);
    } finally {
      silent.abort();
      await beating;
    }
  });
}

async function beat(session: Queryable, role: string, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    let isAnswered = false;
    // By its text an operator recognizes the session in pg_stat_activity.
    const asked = session.query(sql`select ${sql.literal(role)} as role`).then(() => {
      isAnswered = true;
    });
    asked.catch(() => {});
    await within(answerMs, asked, undefined);
    // After a long turn of the event loop, the timer comes before an answer that is already there.
    if (!isAnswered) await nextTurn();
    if (!isAnswered) throw new Error(`no answer within ${answerMs} ms`);
    await pause(beatMs, ended);
  }
}
