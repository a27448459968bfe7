import { describe, expect, it } from 'vitest';
import { useService } from './live.ts';

const live = useService();

describe('accounts on the command line', () => {
  it('invites the first owner of a new account, who is then the only member to be', () => {
    const made = live.json('accounts', 'create', 'Acme', '--owner-email', 'ada@example.com');
    expect(made.invitation_link).toMatch(/#invitation=rh_invite_/);
    const said = live.run(['accounts', 'create', 'Bell', '--owner-email', 'bob@example.com']);
    expect(said.out).toMatch(/^invitation +\S+#invitation=rh_invite_/m);
    expect(live.run(['accounts', 'create', 'Cole']).out).not.toContain('invitation');
    const members = live.run(['members', 'list'], { env: { ROWHOUSE_API_KEY: made.api_key } });
    expect(members.out).toMatch(/^ada@example\.com +owner +all +invited$/m);
  });

  it('requires a second factor of all members, and requires it no longer', () => {
    expect(live.run(['account', 'require-second-factor'])).toMatchObject({
      status: 0,
      out: 'Members of default must have a second factor.\n',
    });
    expect(live.json('account', 'show').account.requires_second_factor).toBe(true);
    expect(live.run(['account', 'require-second-factor', '--off']).out).toContain('need not have');
    expect(live.json('account', 'show').account.requires_second_factor).toBe(false);
  });

  it('takes the rights of an operator from an account, and only with on or off', () => {
    const { id } = live.json('accounts', 'create', 'Operators').account;
    expect(live.run(['accounts', 'change', id, '--operator', 'on']).out).toMatch(/^operator +yes$/m);
    expect(live.run(['accounts', 'change', id, '--operator', 'off']).out).not.toContain('operator');
    expect(live.run(['accounts', 'change', id, '--operator', 'maybe']).status).toBe(2);
    expect(live.run(['accounts', 'change', id]).status).toBe(2);
  });

  it('reads the audit log up to a time, and as JSON lines', () => {
    const entries = live.json('audit', '--action', 'account.create').entries;
    const lines = live.run(['audit', '--action', 'account.create', '--output', 'jsonl']).out;
    const read = lines.trimEnd().split('\n');
    expect(read.map((line) => JSON.parse(line))).toEqual(entries);
    expect(entries.length).toBeGreaterThan(1);
    const [newest, ...older] = entries;
    expect(live.json('audit', '--action', 'account.create', '--to', newest.at).entries).toEqual(older);
    expect(live.run(['audit', '--to', 'soon']).err).toContain('2027-01-31');
  });
});
