// Moves that meet a database that is not theirs, and moves that cannot be brought to an end.
import { describe, expect, it, onTestFinished } from 'vitest';
import { newId } from '../../src/control/new-id.ts';
import type { MoveStep } from '../../src/moves/move.ts';
import { sql } from '../../src/postgres/sql.ts';
import { commentOf, databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { asAdmin, until } from '../support/helpers.ts';
import { type Project, useTwoServers } from '../support/two-servers.ts';

const { rowhouse, secondAddress, create, query, move, ended, databasesAt, movesLeft } = useTwoServers();

const second = () => {
  const found = rowhouse.service.deps.servers.all().find(({ name }) => name === 'second');
  if (!found) throw new Error('The second server is not known.');
  return found;
};
const atSecond = (...statements: string[]) =>
  asAdmin(async (admin) => {
    for (const statement of statements) await admin.query(sql.script(statement));
  }, secondAddress());
const rolesAtSecond = ({ id }: Project) =>
  asAdmin((admin) => admin.query(sql`select from pg_roles where rolname = ${roleOf(id)}`), secondAddress());

describe('a database on the other server that has the name of the project', () => {
  const occupy = async ({ id }: Project, ...more: string[]) => {
    const name = databaseOf(id);
    await atSecond(`create role ${roleOf(id)}`, `create database ${name}`, ...more);
    onTestFinished(() => atSecond(`drop database ${name} with (force)`, `drop role ${roleOf(id)}`));
  };
  const expectKept = async (project: Project) => {
    await until('the move is over', async () => (await movesLeft(project.id)) === 0);
    expect(await databasesAt(project.id, secondAddress())).toEqual([databaseOf(project.id)]);
    expect(await rolesAtSecond(project)).toHaveLength(1);
    expect(await databasesAt(project.id)).toEqual([databaseOf(project.id)]);
    await query(project, 'select 1');
  };
  const occupyBefore = (wanted: MoveStep, act: () => Promise<void>) => {
    const { moves } = rowhouse.service.deps;
    Object.assign(moves, { onStep: async (step: MoveStep) => step === wanted && act() });
    onTestFinished(() => void Object.assign(moves, { onStep: undefined }));
  };

  it('makes the move be refused, and stays', async () => {
    const project = await create();
    await occupy(project);
    const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/move`, {
      body: { server: 'second' },
    });
    expect([status, body.error?.message]).toEqual([409, expect.stringContaining('has a database')]);
    await expectKept(project);
  });

  it('stays if it appears when the move has begun', async () => {
    const project = await create();
    occupyBefore('provision', () => occupy(project));
    expect((await ended(await move(project, 'second'))).error).toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('has a database'),
    });
    await expectKept(project);
  });

  it('stays if it looks like the copy of a move, which has another name at that time', async () => {
    const project = await create();
    const name = databaseOf(project.id);
    occupyBefore('name', () =>
      occupy(
        project,
        `comment on database ${name} is '${commentOf(second())}'`,
        `alter database ${name} with allow_connections false`,
      ),
    );
    expect((await ended(await move(project, 'second'))).status).toBe('failed');
    await expectKept(project);
  });
});

it('a move that cannot be settled does not hold up the others of its server', async () => {
  const { control } = rowhouse.service.deps;
  const { id: to } = second();
  const [from] = rowhouse.service.deps.servers.all().filter(({ name }) => name === 'test');
  const copies = [newId(), newId(), newId()];
  const [first, middle, last] = copies.map(databaseOf);
  // PostgreSQL drops no template. In whichever order they are taken, one of the two comes before the other one.
  const [keep, release] = [true, false].map((isTemplate) =>
    [first, last].map((name) => `alter database ${name} with is_template ${isTemplate}`),
  );
  await atSecond(...[first, middle, last].map((name) => `create database ${name}`), ...(keep ?? []));
  const rows = copies.map((copyId) => ({ projectId: newId(), copyId }));
  for (const { projectId, copyId } of rows)
    await control.query(sql`
      insert into moves (project_id, job_id, from_server, to_server, copy_id, state)
      values (${projectId}, ${newId()}, ${from?.id ?? 0}, ${to}, ${copyId}, 'reopened')`);
  const left = async () => {
    const counts = await Promise.all(rows.map(({ projectId }) => movesLeft(projectId)));
    return counts.join(' ');
  };
  await until('the one in the middle is settled', async () => (await left()) === '1 0 1');
  await atSecond(...(release ?? []));
  await until('all are settled', async () => (await left()) === '0 0 0');
});
