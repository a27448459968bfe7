import { expect, it } from 'vitest';
import { describeSince } from './restore-since.ts';

const nothing = {
  until: '2026-11-16T10:00:00.000Z',
  projects_again: [],
  keys_again: [],
  projects_deleted: [],
  projects_lost: [],
  keys_lost: [],
};

it('lists what has to be ended again, with a command each', () => {
  const key = { id: 'k1', kind: 'scoped', name: 'old laptop', start: 'rh_proj_abc', project: 'shop' };
  const text = describeSince({
    ...nothing,
    keys_again: [{ ...key, ended_at: null, command: 'rowhouse keys revoke shop k1' }],
    projects_lost: [{ slug: 'new', name: 'New \u001b[2J', created_at: '2026-11-16T09:00:00.000Z' }],
  }).join('\n\n');
  expect(text).toMatch(/WORK AGAIN.*\nPROJECT +KEY .*\nshop +old laptop +rh_proj_abc .*rowhouse keys revoke/);
  expect(text).toMatch(/are lost:\nPROJECT .*\nnew /);
  expect(text).not.toContain('\u001b');
  expect(text).not.toContain('EXIST AGAIN');
});

it('says that nothing changed, and that it could not find out', () => {
  expect(describeSince(nothing).join()).toMatch(/^No project and no key was .*2026-11-16/);
  expect(describeSince({ problem: 'no space' }).join(' ')).toMatch(
    /could not be determined: no space.*keys list/,
  );
});
