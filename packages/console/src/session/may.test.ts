import { describe, expect, it } from 'vitest';
import { mayManageProjects, mayOperate, mayWrite } from './may.ts';

describe('what a session may do', () => {
  it('a viewer only reads', () => {
    const viewer = { role: 'viewer', is_operator: false, scope: 'account' } as const;
    expect([mayWrite(viewer), mayManageProjects(viewer), mayOperate(viewer)]).toEqual([false, false, false]);
  });

  it('a developer manages projects, and only an operator the servers', () => {
    const developer = { role: 'developer', is_operator: false, scope: 'account' } as const;
    expect([mayWrite(developer), mayManageProjects(developer), mayOperate(developer)]).toEqual([
      true,
      true,
      false,
    ]);
    expect(mayOperate({ role: 'owner', is_operator: true, scope: 'account' })).toBe(true);
  });

  it('the key of a project writes in it, and creates none', () => {
    const key = { role: null, is_operator: false, scope: 'project' } as const;
    expect([mayWrite(key), mayManageProjects(key), mayOperate(key)]).toEqual([true, false, false]);
  });
});
