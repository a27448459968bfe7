// All projects of a server share the queue of notifications: whoever holds it back while others flood it is ended before a
// neighbour notices.
import type { Socket } from 'node:net';
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { until, useTestService } from '../support/helpers.ts';
import { flood, type Project, useNotifyQueue } from './notify-queue.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 6 } });
const { run, connect, usage, untilShort } = useNotifyQueue(() => rowhouse, 0.01);
let neighbour: Project;
let flooder: Project;

const flood400 = flood(400);
/** 40 MB in transactions of 0.4 MB. */
const drip = `do $$ begin for n in 1..100 loop
  for i in 1..50 loop perform pg_notify('c', repeat('x', 7900) || i); end loop; commit; end loop; end $$`;

/** A neighbour whose trigger notifies inserts all the time, and nothing of it is lost. */
async function besideNeighbour(act: () => Promise<void>): Promise<void> {
  let isOver = false;
  const failures: unknown[] = [];
  let count = 0;
  const inserting = (async () => {
    while (!isOver) {
      const { status, body } = await run(neighbour, 'insert into calm default values');
      if (status !== 200) failures.push(body.error);
      count++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  try {
    await act();
  } finally {
    isOver = true;
    await inserting;
  }
  expect(failures).toEqual([]);
  expect(count).toBeGreaterThan(5);
}

beforeAll(async () => {
  neighbour = await rowhouse.project('Neighbour');
  flooder = await rowhouse.project('Flooder');
  for (const query of [
    'create table calm (id int generated always as identity, at timestamptz default now())',
    `create function tell() returns trigger language plpgsql as $$ begin perform pg_notify('calm', new.id::text); return new; end $$`,
    'create trigger tell after insert on calm for each row execute function tell()',
  ])
    expect((await run(neighbour, query)).status).toBe(200);
});

describe('a project that floods the NOTIFY queue and holds it back loses that session, and the neighbour nothing', () => {
  const holders: [string, (client: pg.Client) => Promise<unknown>][] = [
    [
      'idle in a transaction',
      async (client) => {
        await client.query('listen c');
        await client.query('begin');
        await client.query('select 1');
      },
    ],
    [
      'busy in one, having listened in secret',
      async (client) => {
        await client.query(`do $$ begin execute 'lis' || 'ten c'; end $$`);
        client.query('select pg_sleep(600)').catch(() => {});
        await new Promise((resolve) => setTimeout(resolve, 100));
      },
    ],
    [
      'a procedure that commits and goes on',
      async (client) => {
        client
          .query(`do $$ begin execute 'lis' || 'ten c'; commit; loop perform 1; end loop; end $$`)
          .catch(() => {});
        await new Promise((resolve) => setTimeout(resolve, 100));
      },
    ],
    [
      'a cursor left open',
      async (client) => {
        await client.query('listen c');
        await client.query('begin');
        await client.query('declare d cursor for select generate_series(1, 1000000000)');
        await client.query('fetch 1 from d');
      },
    ],
  ];

  it.each(holders)('a session is ended: %s', async (_how, hold) => {
    const project = await rowhouse.project('Culprit');
    const [holder, calm] = [await connect(project), await connect(neighbour)];
    await hold(holder);
    await besideNeighbour(async () => {
      let peak = 0;
      let isOver = false;
      const supervise = (async () => {
        while (!isOver) {
          peak = Math.max(peak, await usage());
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      })();
      const floods = [run(project, flood400), run(project, drip), run(project, drip)];
      for (const { status, body } of await Promise.all(floods))
        expect([200, 503], JSON.stringify(body)).toContain(status);
      await until('the holder is ended', async () => holder.isOver);
      isOver = true;
      await supervise;
      // 128 MB of 4 GB are a thirtieth: it was never near full.
      expect(peak).toBeLessThan(0.3);
    });
    // Somebody who only is connected is left alone.
    expect((await calm.query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  });

  it('a session is ended: one that does not read its notifications', async () => {
    const holder = await connect(flooder);
    await holder.query('listen c');
    const { stream } = (holder as unknown as { connection: { stream: Socket } }).connection;
    stream.pause();
    try {
      await besideNeighbour(async () => {
        await Promise.all([run(flooder, flood400), run(flooder, drip), run(flooder, drip)]);
        await untilShort();
      });
    } finally {
      stream.destroy();
    }
  });

  it('a session is ended: a procedure through the API', async () => {
    const project = await rowhouse.project('Culprit');
    const held = run(project, `do $$ begin execute 'lis' || 'ten c'; commit; perform pg_sleep(50); end $$`);
    await besideNeighbour(async () => {
      await Promise.all([run(project, flood400), run(project, drip), run(project, drip)]);
      expect((await held).status).toBe(503);
    });
  });

  it('many sessions of one project are ended at once', async () => {
    const project = await rowhouse.project('Culprit');
    const holders = await Promise.all(Array.from({ length: 20 }, () => connect(project)));
    for (const holder of holders) {
      await holder.query('listen c');
      await holder.query('begin');
      await holder.query('select 1');
    }
    await besideNeighbour(async () => {
      await Promise.all([run(project, flood400), run(project, drip)]);
      await until('all are ended', async () => holders.every(({ isOver }) => isOver));
    });
  });
});

describe('a flood of another project ends no listener', () => {
  type Holder = { isOver: () => boolean; finish: () => Promise<unknown> };
  const holders: [string, (project: Project) => Promise<Holder>][] = [
    [
      'that is busy',
      async (project) => {
        const holder = await connect(project);
        await holder.query('listen c');
        const busy = holder.query('select pg_sleep(12)');
        busy.catch(() => {});
        return { isOver: () => holder.isOver === true, finish: () => busy };
      },
    ],
    [
      'that is busy, one statement after another in a transaction',
      async (project) => {
        const holder = await connect(project);
        await holder.query('listen c');
        await holder.query('begin');
        const busy = (async () => {
          for (let n = 0; n < 100; n++) await holder.query('select pg_sleep(0.1)');
          await holder.query('commit');
        })();
        busy.catch(() => {});
        return { isOver: () => holder.isOver === true, finish: () => busy };
      },
    ],
    [
      'that is idle in a transaction',
      async (project) => {
        const holder = await connect(project);
        await holder.query('listen c');
        await holder.query('begin');
        await holder.query('select 1');
        return { isOver: () => holder.isOver === true, finish: () => holder.query('commit') };
      },
    ],
    [
      'in a procedure through the API',
      async (project) => {
        let isOver = false;
        const busy = run(
          project,
          `do $$ begin execute 'lis' || 'ten c'; commit; perform pg_sleep(10); end $$`,
        ).then(({ status }) => {
          isOver = status !== 200;
        });
        await new Promise((resolve) => setTimeout(resolve, 100));
        return { isOver: () => isOver, finish: () => busy };
      },
    ],
    ['that only waits', async () => ({ isOver: () => false, finish: async () => {} })],
  ];

  it.each(holders)('%s', async (_who, hold) => {
    const project = await rowhouse.project('Holder');
    const { isOver, finish } = await hold(project);
    const third = await rowhouse.project('Third');
    // What sessions hear in the neighbour's database, and in one that does nothing else.
    const heard = new Map<string, string[]>();
    const listeners = await Promise.all(
      [neighbour, third, neighbour].map(async (other, index) => {
        const client = await connect(other);
        await client.query('listen heard');
        const name = `${index}`;
        heard.set(name, []);
        client.on('notification', ({ payload = '' }) => heard.get(name)?.push(payload));
        return client;
      }),
    );
    let peak = 0;
    const hear = async () => {
      for (const list of heard.values()) list.splice(0);
      for (const other of [neighbour, third])
        for (let n = 1; n <= 5; n++)
          expect((await run(other, `select pg_notify('heard', '${n}')`)).status).toBe(200);
      const all = ['1', '2', '3', '4', '5'];
      await until('they hear 5 of 5', async () => [...heard.values()].every((list) => list.length >= 5));
      expect([...heard.values()]).toEqual([all, all, all]);
    };
    await besideNeighbour(async () => {
      for (const { status, body } of await Promise.all([1, 2, 3, 4].map(() => run(flooder, flood400))))
        expect([200, 503], JSON.stringify(body)).toContain(status);
      peak = await usage();
      await hear();
      expect(isOver()).toBe(false);
      await finish();
      expect(isOver()).toBe(false);
      await untilShort();
      await hear();
    });
    expect(peak).toBeLessThan(0.5);
    expect(listeners.map((client) => (client as { isOver?: boolean }).isOver ?? false)).toEqual([
      false,
      false,
      false,
    ]);
    // It floods still, and is not refused for what it did.
    expect((await run(flooder, 'select 1 as fine')).body.rows).toEqual([{ fine: 1 }]);
  });

  it('again and again: neither is refused direct connections', async () => {
    const project = await rowhouse.project('Holder');
    const holder = await connect(project);
    await holder.query('listen c');
    for (let time = 0; time < 3; time++) {
      await holder.query('begin');
      await holder.query('select 1');
      await run(flooder, flood400);
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      await holder.query('commit');
      await untilShort();
    }
    for (const one of [project, flooder])
      expect((await (await connect(one)).query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  });

  it('a listener that only was not woken holds nothing back: floods that fail wake nobody', async () => {
    const listener = await connect(neighbour);
    await listener.query('listen heard');
    const failing = `do $$ begin for i in 1..50000 loop perform pg_notify('c', repeat('x', 7900) || i); end loop; end $$; `;
    const attempts = await Promise.all(
      [1, 2, 3].map(() =>
        rowhouse.call('POST', `/projects/${flooder.slug}/query`, {
          key: flooder.key,
          body: { query: failing, timeout_ms: 150 },
        }),
      ),
    );
    for (const { status } of attempts) expect([200, 503, 504]).toContain(status);
    await untilShort();
    expect((await listener.query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  });
});

it('a flood that does not fill the queue ends no session', async () => {
  const reader = await connect(neighbour);
  const reading = reader.query('select pg_sleep(2), 1 as fine');
  await besideNeighbour(async () => {
    for (let n = 0; n < 3; n++) expect((await run(flooder, flood400)).status).toBe(200);
  });
  expect((await reading).rows[0].fine).toBe(1);
});

it('a project that repeats it gets no direct connection for a while, and the API goes on', async () => {
  const project = await rowhouse.project('Culprit');
  const bystander = await connect(neighbour);
  for (let time = 0; time < 2; time++) {
    const holder = await connect(project);
    await holder.query('listen c');
    await holder.query('begin');
    await holder.query('select 1');
    await run(project, flood400);
    await until('the holder is ended', async () => holder.isOver);
    await untilShort();
  }
  const refusal = await until('it is refused', () =>
    connect(project).then(
      () => false as const,
      (error: Error) => (error.message.includes('refused until') ? error.message : false),
    ),
  );
  expect(refusal).toMatch(
    /held back the notification queue .* refused until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/,
  );
  expect((await run(project, 'select 1 as fine')).body.rows).toEqual([{ fine: 1 }]);
  expect((await bystander.query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  expect(rowhouse.log.join('')).toContain('held back the queue of notifications again');
  // A door that is opened for another reason does not let it in.
  const { endPauses } = await import('../../src/quotas/direct/direct-pauses.ts');
  await endPauses(rowhouse.service.deps.server, Date.now());
  await expect(connect(project)).rejects.toThrow('refused until');
  await endPauses(rowhouse.service.deps.server, Date.now() + 3_600_000);
  const [row] = await rowhouse.service.deps.server.maintenance.query<{ count: number }>(sql`
    select count(*)::int as count from pg_db_role_setting join pg_database on pg_database.oid = setdatabase
    where datname = ${`p_${project.id}`} and setconfig::text like '%direct_pause%'`);
  expect(row?.count).toBe(0);
});
