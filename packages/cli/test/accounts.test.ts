import { describe, expect, it } from 'vitest';
import { Page } from '../../server/test/support/console-page.ts';
import { useService } from './live.ts';

const live = useService();

describe('accounts on the command line', () => {
  it('invites the first owner of a new account, who is then the only member to be', () => {
    const made = live.json('accounts', 'create', 'Acme', '--owner-email', 'ada@example.com');
    expect(made.invitation_link).toMatch(/#invitation=rh_invite_/);
    const said = live.run(['accounts', 'create', 'Bell', '--owner-email', 'bob@example.com']);
    expect(said.out).toMatch(/^invitation +\S+#invitation=rh_invite_/m);
    // The service does not know its public name here.
    const warning = /works only on the machine of the service.*ROWHOUSE_CONSOLE_HOSTS/;
    expect(said.err).toMatch(warning);
    const invited = live.run(['members', 'invite', 'ann@example.com', '--role', 'viewer']);
    expect([invited.status, invited.err]).toEqual([0, expect.stringMatching(warning)]);
    expect(live.run(['accounts', 'create', 'Cole']).out).not.toContain('invitation');
    const members = live.run(['members', 'list'], { env: { ROWHOUSE_API_KEY: made.api_key } });
    expect(members.out).toMatch(/^ada@example\.com +owner +all +invited$/m);
  });

  it('removes a member and says which of their keys still work, or revokes them', async () => {
    const { api_key: key } = live.json('accounts', 'create', 'Dodd');
    const env = { ROWHOUSE_API_KEY: key };
    const removeAfterIssuing = async (email: string, ...how: string[]) => {
      const invited = live.run(['members', 'invite', email, '--role', 'admin', '--json'], { env });
      const page = new Page(Number(new URL(live.service.url).port));
      const accepted = await page.call('POST', '/console/invitation/accept', {
        body: {
          code: JSON.parse(invited.out).link.split('#invitation=')[1],
          password: 'violet anchor seven',
        },
      });
      expect(accepted.status, accepted.text).toBe(200);
      page.token = accepted.body.token;
      await page.call('POST', '/account/keys', { body: { name: `ci of ${email}` } });
      await page.call('POST', '/projects', { body: { name: `P ${email}` } });
      const removed = live.run(['members', 'remove', email, ...how], { env });
      expect([removed.status, removed.err]).toEqual([0, '']);
      return removed.out;
    };
    const kept = await removeAfterIssuing('kept@example.com');
    expect(kept).toMatch(
      /^kept@example\.com is no longer a member\.\nThese keys still work:\n {2}ci of kept@example\.com: rowhouse account revoke-key key_\w+\nThey know these project keys\. To replace them:\n {2}rowhouse keys rotate p-kept-example-com --grace 0s\n1 key without a known issuer, for example of the first start, still works, and they may know it\. To look for such keys:\n {2}rowhouse account keys\n {2}rowhouse keys list <project>\n$/,
    );
    const command = /rowhouse (account revoke-key \S+)/.exec(kept)?.[1] ?? '';
    expect(live.run(command.split(' '), { env }).out).toContain('is revoked');
    expect(await removeAfterIssuing('gone@example.com', '--revoke-keys')).toMatch(
      /^gone@example\.com is no longer a member\.\nRevoked 1 key: ci of gone@example\.com\.\n/,
    );
    const keys = live.run(['account', 'keys'], { env }).out;
    expect(keys).toMatch(/ISSUED BY\n/);
    expect(keys).toMatch(/ci of gone@example\.com +developer +\S+ +revoked .* gone@example\.com$/m);
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
    expect(live.json('audit', '--action', 'account.create', '--until', newest.at).entries).toEqual(older);
    expect(live.run(['audit', '--until', 'soon']).err).toContain('2027-01-31');
    // A duration counts back from now.
    expect(live.json('audit', '--action', 'account.create', '--since', '1h').entries).toEqual(entries);
    expect(live.json('audit', '--action', 'account.create', '--until', '1h').entries).toEqual([]);
  });
});
