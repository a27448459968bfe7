import { expect, it } from 'vitest';
import { type Access, compareAccess } from './access.ts';

const [early, late, now] = ['2026-11-01', '2026-11-02', '2026-11-03'].map((day) => new Date(day)) as [
  Date,
  Date,
  Date,
];

function project(id: string, deletedAt: Date | null = null): Access['projects'][number] {
  return { id, slug: id, name: id.toUpperCase(), created_at: early, deleted_at: deletedAt };
}

function key(
  id: string,
  projectId: string | null,
  more: Partial<Access['keys'][number]> = {},
): Access['keys'][number] {
  return {
    id,
    kind: projectId === null ? 'account' : 'scoped',
    project_id: projectId,
    name: `name of ${id}`,
    start: `rh_${id}`,
    created_at: early,
    expires_at: null,
    rotated_at: null,
    revoked_at: null,
    ...more,
  };
}

const nothing = {
  projects_again: [],
  keys_again: [],
  projects_deleted: [],
  projects_lost: [],
  keys_lost: [],
};

it('finds nothing where nothing was ended or created', () => {
  const access = { projects: [project('a'), project('b', early)], keys: [key('1', 'a'), key('2', null)] };
  expect(compareAccess(access, access, now)).toEqual(nothing);
});

it('names what was deleted or revoked since, and the command that ends it again', () => {
  const restored = {
    projects: [project('a'), project('b'), project('c')],
    keys: [
      key('own', 'a', { kind: 'project' }),
      key('old', 'a', { kind: 'project', rotated_at: early, expires_at: new Date('2027-01-01') }),
      key('scoped', 'a'),
      key('of-b', 'b'),
      key('of-c', 'c'),
      key('account', null),
    ],
  };
  const newest = {
    // The deleted project c is gone with its keys.
    projects: [project('a'), project('b', late)],
    keys: [
      key('own', 'a', { kind: 'project', rotated_at: late, expires_at: late }),
      key('old', 'a', { kind: 'project', rotated_at: early, expires_at: late, revoked_at: late }),
      key('scoped', 'a', { revoked_at: late }),
      key('of-b', 'b', { revoked_at: late }),
      key('account', null, { revoked_at: late }),
      key('account-2', null),
    ],
  };
  const found = compareAccess(restored, newest, now);
  expect(found.projects_again.map(({ ended_at, command }) => [ended_at, command])).toEqual([
    [late.toISOString(), 'rowhouse projects delete b --yes'],
    [null, 'rowhouse projects delete c --yes'],
  ]);
  expect(found.keys_again.map(({ command }) => command)).toEqual([
    'rowhouse keys rotate a --grace 0s',
    'rowhouse keys revoke a old',
    'rowhouse keys revoke a scoped',
    'rowhouse keys revoke b of-b',
    'rowhouse start --new-account-key',
  ]);
  expect(found.keys_lost.map(({ start }) => start)).toEqual(['rh_account-2']);
});

it('leaves out keys that do not work anyway, and keys of lost projects', () => {
  const restored = {
    projects: [project('a'), project('b', early)],
    keys: [key('expired', 'a', { expires_at: late }), key('of-deleted', 'b')],
  };
  const newest = {
    projects: [project('a'), project('b'), project('new')],
    keys: [key('of-deleted', 'b', { revoked_at: late }), key('of-new', 'new')],
  };
  expect(compareAccess(restored, newest, now)).toEqual({
    ...nothing,
    projects_lost: [{ slug: 'new', name: 'NEW', created_at: early.toISOString() }],
    projects_deleted: [{ slug: 'b', name: 'B', command: 'rowhouse projects restore b' }],
  });
});
