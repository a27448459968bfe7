// Requests with an Idempotency-Key share statements on the control database, and none of them notices the others.
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { type Control, openControl } from '../../src/control/control.ts';
import { type IdempotentRequest, openIdempotency } from '../../src/jobs/idempotency.ts';
import type { Caller } from '../../src/keys/caller.ts';
import { sql } from '../../src/postgres/sql.ts';
import { idempotencyLimits } from '../../src/settings/limits/idempotency.ts';
import { newUser, seatOf } from '../support/end-users.ts';
import { holdTransaction } from '../support/held-transaction.ts';
import { address, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ background: false });

/** Transactions that write to the table `repeats` while `act` runs. */
async function countWrites(control: Control, act: () => Promise<unknown>): Promise<number> {
  const query = vi.spyOn(control, 'query');
  try {
    await act();
    return query.mock.calls.filter(([{ text }]) => /(insert into|update|delete from) repeats\s/.test(text))
      .length;
  } finally {
    query.mockRestore();
  }
}

describe('many requests with an Idempotency-Key', () => {
  it('share transactions, and each repeat gets its own first answer', async () => {
    const project = await rowhouse.project();
    const { query, rows } = await seatOf(rowhouse, project);
    for (const statement of [
      `create table todos (
         id int generated always as identity primary key, user_id uuid not null default auth.uid(), title text)`,
      'alter table todos enable row level security',
      'create policy own on todos to authenticated using (user_id = auth.uid()) with check (user_id = auth.uid())',
    ])
      await query(statement);
    const users = await Promise.all(
      ['ann', 'ben', 'cem', 'dan', 'eve'].map((name) => newUser(rowhouse, project, `${name}@example.com`)),
    );
    const insertAll = () =>
      Promise.all(
        Array.from({ length: 200 }, (_, n) => {
          const user = users[n % users.length] as (typeof users)[0];
          // Every user has the same keys.
          const headers = { 'idempotency-key': `todo-${Math.floor(n / users.length)}` };
          const body = { title: `${user.email} ${n}` };
          // On a busy machine some wait too long for a session, and their keys are free again.
          return until('a session was free', async () => {
            const answer = await rows(user, 'POST', 'todos', { body, headers });
            return answer.status !== 429 && answer;
          });
        }),
      );
    let first: Awaited<ReturnType<typeof insertAll>> = [];
    const writes = await countWrites(rowhouse.service.deps.control, async () => {
      first = await insertAll();
    });
    expect(first.filter(({ status }) => status !== 201)).toEqual([]);
    // Alone, each would take two. Inserts as users end one after the other, so their ends share less than their beginnings.
    expect(writes).toBeLessThan(250);
    const again = await insertAll();
    for (const [n, { status, headers, body }] of again.entries()) {
      expect([status, headers['idempotency-replayed']]).toEqual([201, 'true']);
      expect(body).toEqual(first[n]?.body);
      expect(body.row).toMatchObject({
        user_id: users[n % users.length]?.id,
        title: `${users[n % users.length]?.email} ${n}`,
      });
    }
  });

  it('reserve once if their key is the same', async () => {
    const project = await rowhouse.project();
    const insert = () =>
      rowhouse.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: 'create table once (id int)' },
        headers: { 'idempotency-key': 'same' },
      });
    const answers = await Promise.all(Array.from({ length: 50 }, insert));
    expect(answers.filter(({ status }) => ![200, 409].includes(status))).toEqual([]);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
    expect((await insert()).headers['idempotency-replayed']).toBe('true');
  });
});

describe('one of many reservations', () => {
  const fingerprint = Buffer.alloc(32, 1);
  const callerOf = (accountId: string = randomUUID()): Caller => ({
    ...({ kind: 'project', serverId: 1, slug: 's', scopes: [], tables: null } as const),
    accountId,
    projectId: accountId,
    keyId: randomUUID(),
    passwordVersion: 1,
    isRotated: false,
    maxPerSecond: null,
    expiresAt: null,
  });
  const requestOf = (key: string, caller = callerOf('groups')): IdempotentRequest => ({
    caller,
    user: null,
    key,
    method: 'POST',
    path: `/${key}`,
    fingerprint,
    readToEnd: async () => fingerprint,
  });
  const answer = { status: 200, contentType: null, location: null, body: Buffer.from('{}') };
  type Store = ReturnType<typeof openIdempotency>;
  const within = async (
    use: (store: Store, failures: unknown[], control: Control) => Promise<void>,
    limits = idempotencyLimits,
  ) => {
    const control = openControl(address(), rowhouse.controlDatabase);
    const failures: unknown[] = [];
    const onError = (error: unknown) => failures.push(error);
    const store = openIdempotency({
      control,
      masterKey: randomBytes(32),
      now: Date.now,
      onError,
      limits,
    });
    try {
      await use(store, failures, control);
    } finally {
      await store.stop();
      await control.end();
    }
  };
  const reserve = async (store: Store, key: string, caller?: Caller) => {
    const found = await store.begin(requestOf(key, caller));
    if (!('reservation' in found)) throw new Error('It was there already.');
    return found.reservation;
  };
  const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix} ${n}`);
  /** Holds the only row of this account. */
  const lockRow = (accountId: string) =>
    holdTransaction({ ...address(), database: rowhouse.controlDatabase }, async (transaction) => {
      const locked = await transaction.query(
        sql`update repeats set alive_until = alive_until where account_id = ${accountId} returning 1`,
      );
      expect(locked).toHaveLength(1);
    });

  it('shares its transactions with all that begin and end with it, of whatever account', async () => {
    await within(async (store, _failures, control) => {
      const callers = Array.from({ length: 5 }, () => callerOf());
      const writes = await countWrites(control, async () => {
        const reservations = await Promise.all(
          callers.flatMap((caller) => names('shared', 20).map((key) => reserve(store, key, caller))),
        );
        await Promise.all(reservations.map((one) => one.end({ is: 'answered', fingerprint, answer })));
      });
      // Each account's first reservation waits for the measurement of its usage. One may be a sign of life.
      expect(writes).toBeLessThanOrEqual(5 + 1 + 1);
      for (const caller of callers)
        for (const key of names('shared', 20))
          expect(await store.begin(requestOf(key, caller))).toEqual({ answer });
    });
  });

  it('waits alone for a row that another process has locked', async () => {
    await within(async (store) => {
      const caller = callerOf();
      await (await reserve(store, 'locked', caller)).end({ is: 'answered', fingerprint, answer });
      const unlock = await lockRow(caller.accountId);
      const order: string[] = [];
      const note = (name: string) => (outcome: unknown) => {
        order.push(name);
        return outcome;
      };
      const stalled = Array.from({ length: 20 }, () =>
        store.begin(requestOf('locked', caller)).catch(note('locked')),
      );
      // In the same statement, and in one that comes while the row stays locked.
      for (const round of ['together', 'meanwhile'])
        await Promise.all(names(round, 30).map((key) => reserve(store, key).then(note('others'))));
      expect(order).toEqual(Array(60).fill('others'));
      for (const error of await Promise.all(stalled))
        expect(error).toMatchObject({ code: 'conflict', details: { retryable: true } });
      await unlock();
      expect(await store.begin(requestOf('locked', caller))).toEqual({ answer });
    });
  });

  it('is stored later if its row is locked when it ends, and others are stored at once', async () => {
    await within(async (store, failures) => {
      const caller = callerOf();
      const slow = await reserve(store, 'slow', caller);
      const others = await Promise.all(names('ended', 30).map((key) => reserve(store, key)));
      const unlock = await lockRow(caller.accountId);
      let isSlowOver = false;
      const ending = slow.end({ is: 'answered', fingerprint, answer }).then(() => {
        isSlowOver = true;
      });
      await Promise.all(others.map((other) => other.end({ is: 'answered', fingerprint, answer })));
      expect(isSlowOver).toBe(false);
      for (const key of names('ended', 30)) expect(await store.begin(requestOf(key))).toEqual({ answer });
      await ending;
      expect(failures).toHaveLength(1);
      await unlock();
      await until('its end is stored', async () => {
        const error = await store.begin(requestOf('slow', caller)).catch((thrown) => thrown);
        return error.details?.ran === true;
      });
    });
  });

  it('still counts as running while the end of another one cannot be stored', async () => {
    const limits = { ...idempotencyLimits, beatMs: 50, aliveMs: 4_000 };
    await within(async (store) => {
      const caller = callerOf();
      const slow = await reserve(store, 'slow', caller);
      await reserve(store, 'running');
      const unlock = await lockRow(caller.accountId);
      await slow.end({ is: 'answered', fingerprint, answer });
      await setTimeout(limits.aliveMs + 1_000);
      const error = await store.begin(requestOf('running')).catch((thrown) => thrown);
      expect(error).toMatchObject({ code: 'conflict', details: { retryable: true } });
      await unlock();
    }, limits);
  });

  it('fails alone if PostgreSQL refuses what it stores', async () => {
    await within(async (store, failures) => {
      const keys = names('refused', 30);
      const reservations = await Promise.all(keys.map((key) => reserve(store, key)));
      await Promise.all(
        reservations.map((reservation, n) => {
          // PostgreSQL has no such text.
          const contentType = n === 7 ? 'text\0plain' : null;
          return reservation.end({ is: 'answered', fingerprint, answer: { ...answer, contentType } });
        }),
      );
      expect(failures).toMatchObject([{ sqlstate: '22021' }]);
      for (const key of keys.toSpliced(7, 1)) expect(await store.begin(requestOf(key))).toEqual({ answer });
    });
  });
});
