import { describe, expect, it } from 'vitest';
import {
  mayCreateProjects,
  mayManageAccount,
  mayManageProjects,
  mayOperate,
  mayWrite,
  rolesBelow,
} from './may.ts';

const member = { is_operator: false, scope: 'account', sees_all_projects: true } as const;

describe('what a session may do', () => {
  it('a viewer only reads', () => {
    const viewer = { ...member, role: 'viewer' } as const;
    const allowed = [mayWrite, mayManageProjects, mayCreateProjects, mayManageAccount, mayOperate];
    expect(allowed.map((may) => may(viewer))).toEqual([false, false, false, false, false]);
  });

  it('a developer manages projects, an admin the account, and only an operator the servers', () => {
    const developer = { ...member, role: 'developer' } as const;
    expect([mayWrite(developer), mayCreateProjects(developer)]).toEqual([true, true]);
    expect([mayManageAccount(developer), mayOperate(developer)]).toEqual([false, false]);
    expect(mayManageAccount({ ...member, role: 'admin' })).toBe(true);
    expect(mayOperate({ ...member, role: 'owner', is_operator: true })).toBe(true);
  });

  it('who sees only some projects makes none', () => {
    const limited = { ...member, role: 'developer', sees_all_projects: false } as const;
    expect([mayManageProjects(limited), mayCreateProjects(limited)]).toEqual([true, false]);
  });

  it('the key of a project writes in it, and creates none', () => {
    const key = { role: null, is_operator: false, scope: 'project', sees_all_projects: false } as const;
    expect([mayWrite(key), mayManageProjects(key), mayOperate(key)]).toEqual([true, false, false]);
  });

  it('nobody gives a role above the own', () => {
    expect(rolesBelow({ role: 'admin' })).toEqual(['viewer', 'developer', 'admin']);
    expect(rolesBelow({ role: null })).toEqual([]);
  });
});
