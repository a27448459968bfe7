// Finds code of PostgreSQL that does not react to a cancel: calls every function that a project may execute, and every form of the
// grammar, with large inputs and a short statement_timeout, and interrupts what still runs long after it.
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { type Call, forms, typeOf, values } from './large-inputs.ts';

export type Result = {
  /** What did not react to the timeout, and ended when its backend was interrupted. */
  interrupted: string[];
  /** What went on even so. */
  unstoppable: string[];
  calls: number;
  /** Calls for which there was no time. */
  left: number;
};

const timeoutMs = 100;
const [interruptAfterMs, unstoppableAfterMs] = [600, 4_000];
/** The small size is for what a limit of its own refuses. */
const sizes = [200_000, 4_000];
const mostOfFunction = 8;

const tableOf = (type: string, which: number, n: number) =>
  `v_${Object.keys(values).indexOf(type)}_${which}_${n}`;

/** The values are made once, and not for each call. */
async function prepare(client: pg.Client): Promise<void> {
  for (const n of sizes)
    for (const [type, kinds] of Object.entries(values))
      for (const [which, expression] of kinds.entries())
        await client
          .query(`create temp table ${tableOf(type, which, n)} as select ${expression(n)} as v`)
          .catch(() => {});
}

/** They end sessions or wait on purpose. */
const skipped = /^pg_(sleep|terminate_backend|cancel_backend|advisory|try_advisory|promote|wal_replay|stat_)/;

type Found = { name: string; schema: string; shown: string; types: string[]; variadic: boolean };

async function functionsOf(client: pg.Client): Promise<Call[]> {
  const { rows } = await client.query<Found>(`
    select proname as name, nspname as schema, p.oid::regprocedure::text as shown, provariadic <> 0 as variadic,
           array(select format_type(t, null) from unnest(proargtypes) with ordinality as a (t, n) order by n) as types
    from pg_proc p join pg_namespace n on n.oid = pronamespace
    where prokind = 'f' and pronargs between 1 and 6 and prorettype <> 'internal'::regtype
      and nspname in ('pg_catalog', 'public') and has_function_privilege(p.oid, 'execute') order by p.oid`);
  return rows.flatMap((found) => (skipped.test(found.name) ? [] : callsOf(found)));
}

/** All arguments large; each in turn of another kind; all of another kind. */
function callsOf({ name, schema, shown, types, variadic }: Found): Call[] {
  const counts = types.map((type) => values[typeOf(type)]?.length ?? 0);
  if (counts.includes(0)) return [];
  const chosen = new Set([counts.map(() => 0).join()]);
  for (let kind = 1; kind < Math.max(...counts); kind++) {
    chosen.add(counts.map((count) => kind % count).join());
    for (const [index, count] of counts.entries())
      if (kind < count) chosen.add(counts.map((_, other) => (other === index ? kind : 0)).join());
  }
  return [...chosen].slice(0, mostOfFunction).map((one) => {
    const kinds = one.split(',').map(Number);
    const given = types.map(
      (_, index) => `${variadic && index === types.length - 1 ? 'variadic ' : ''}a${index}.v`,
    );
    const from = (n: number) =>
      types.map((type, index) => `${tableOf(typeOf(type), kinds[index] ?? 0, n)} as a${index}`).join(', ');
    return {
      what: shown,
      sql: (n) => `select ${schema}."${name}"(${given.join(', ')}) is null from ${from(n)}`,
    };
  });
}

/** `open`: a session of the project. `interrupt`: as the service does it. */
export async function findUninterruptible(
  open: () => Promise<pg.Client>,
  interrupt: (pid: number) => void,
  budgetMs: number,
): Promise<Result> {
  const connect = async () => {
    const opened = await open();
    await prepare(opened);
    await opened.query(`set statement_timeout = ${timeoutMs}`);
    return opened;
  };
  const listing = await open();
  const all = [...forms, ...(await functionsOf(listing))];
  await listing.end();
  let client = await connect();
  const startedAt = performance.now();
  const [interrupted, unstoppable] = [new Set<string>(), new Set<string>()];
  let calls = 0;
  let done = 0;
  /** Returns whether it failed for a reason of its own. */
  const run = async (call: Call, n: number, isRepeated = false): Promise<boolean> => {
    calls++;
    const { processID } = client as unknown as { processID: number };
    let wasInterrupted = false;
    const timer = setTimeout(() => {
      wasInterrupted = true;
      interrupt(processID);
    }, interruptAfterMs);
    const asked = client.query(call.sql(n)).then(
      () => null,
      (error: { code?: string }) => error.code ?? 'lost',
    );
    const state = await Promise.race([asked, sleep(unstoppableAfterMs, 'unstoppable', { ref: false })]);
    clearTimeout(timer);
    if (wasInterrupted) interrupted.add(call.what);
    if (state === 'unstoppable') unstoppable.add(call.what);
    // Interrupted after its statement had ended, the session before is lost: the call is repeated in a new one.
    if (state === 'unstoppable' || state === 'lost') client = await connect();
    if (state === 'lost' && !isRepeated) return run(call, n, true);
    return state !== null && state !== '57014' && !wasInterrupted;
  };
  for (const call of all) {
    if (performance.now() - startedAt > budgetMs) break;
    done++;
    if (interrupted.has(call.what)) continue;
    for (const n of sizes) if (!(await run(call, n))) break;
  }
  await client.end();
  return { interrupted: [...interrupted], unstoppable: [...unstoppable], calls, left: all.length - done };
}
