// Invitations in the console where mail is set: the dialogs say that they were mailed, and show no link.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startMailServer } from '../../server/test/support/mail-server.ts';
import { fill, inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const mailServer = await startMailServer();
const rowhouse = useConsoleService({
  consolePage: 'https://console.example.com/console/',
  delivery: mailServer.delivery,
});
afterAll(() => mailServer.stop());

inBrowsers('invitations by mail', (name) => {
  const visit = useVisit(name, rowhouse, `mailed-${name}`);
  const { button, dialog } = visit;

  beforeAll(() => visit.signIn());

  it('the first owner of a new account gets the link; the operator sees only the key', async () => {
    const email = `founder-${name}@example.com`;
    await visit.link('Accounts').click();
    await button('New account').click();
    await fill(dialog().getByLabel('Name'), `Mailed ${name}`);
    await fill(dialog().getByLabel('Email address of the first owner'), email);
    await button('Create account').click();
    await dialog(`Mailed ${name} is created`).getByText(`The link was sent to ${email}.`).waitFor();
    const shown = await dialog().locator('.secret code').allInnerTexts();
    expect(shown.map((text) => text.trim())).toEqual([expect.stringMatching(/^rh_acct_/)]);
    const mails = mailServer.mails.filter(({ to }) => to.includes(email));
    expect(mails.map(({ text }) => text)).toEqual([expect.stringContaining('#invitation=rh_invite_')]);
    await button('Done').click();
  });
});
