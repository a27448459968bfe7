// Further ways to sign in, in real browsers: a passkey of Chromium's virtual authenticator, and another provider. Firefox has no
// virtual authenticator: there, only what the page offers is tested.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sql } from '../../server/src/postgres/sql.ts';
import { useTestService } from '../../server/test/support/helpers.ts';
import { startProvider } from '../../server/test/support/oidc-provider.ts';
import { enterPassword, expectAccessible, fill, inBrowsers, openBrowser } from './browser.ts';
import { inviteTo, join, openAccount, password } from './members-of.ts';
import { builtConsole, type ListeningService } from './visit.ts';

/** Passkeys and the provider know the address of the console from the configuration, so that it is chosen before the start. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
let laterMs = 0;
const port = await freePort();
const origin = `http://127.0.0.1:${port}`;
const provider = await startProvider({ redirectUri: `${origin}/console/signed-in` });
const rowhouse = useTestService({
  now: () => Date.now() + laterMs,
  console: builtConsole,
  consolePage: `${origin}/console/`,
  provider: provider.config,
}) as ListeningService;
const at = (path = '') => `http://localhost:${port}/console/${path}`;

beforeAll(async () => {
  await rowhouse.app.listen({ host: '127.0.0.1', port });
  Object.assign(rowhouse, { origin });
});
afterAll(() => provider.stop());

inBrowsers('further ways to sign in', (name) => {
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  const button = (label: string) => page.getByRole('button', { name: label, exact: true });
  const dialog = (title: string) => page.getByRole('dialog', { name: title });
  const passkey = (label: string) => page.getByRole('cell', { name: label, exact: true });
  const projects = () => page.getByRole('heading', { name: 'Projects' }).waitFor();
  const openPage = async () => {
    page = await (await browser.newContext({ reducedMotion: 'reduce' })).newPage();
    page.setDefaultTimeout(60_000);
  };
  const act = async (label: string, item: string) => {
    await button(`Actions for ${label}`).click();
    await page.getByRole('menuitem', { name: item }).click();
  };
  /** As if the browser had been closed. Its authenticator stays. */
  const forgetSession = async () => {
    await page.evaluate(() => sessionStorage.clear());
    await page.context().clearCookies();
    await page.goto('about:blank');
  };
  const signInAtProvider = async (login: string) => {
    await button('Sign in with Example Login').click();
    const field = page.locator('input[name=login]');
    const authorize = page.getByText('Authorize').first();
    await field.or(authorize).or(page.getByRole('alert')).first().waitFor();
    // The provider remembers who signed in and agreed.
    if (await field.isVisible()) {
      await field.fill(login);
      await page.locator('input[name=password]').fill('any');
      await page.locator('button[type=submit]').click();
      await authorize.or(page.getByRole('alert')).first().waitFor();
    }
    if (await authorize.isVisible()) await page.locator('button[type=submit]').click();
  };

  beforeAll(async () => {
    browser = await openBrowser(name);
    await openPage();
  });
  afterAll(async () => {
    await browser?.close();
  });

  it('are offered where they work: a passkey under its own host name, in a browser that has them', async () => {
    await page.goto(at());
    await button('Sign in with a passkey').waitFor();
    await button('Sign in with Example Login').waitFor();
    await expectAccessible(page);
    await page.goto(`${origin}/console/`);
    await button('Sign in with Example Login').waitFor();
    expect(await button('Sign in with a passkey').count()).toBe(0);
    await page.addInitScript(() => {
      Reflect.deleteProperty(window, 'PublicKeyCredential');
    });
    await page.goto(at());
    await button('Sign in with Example Login').waitFor();
    expect(await button('Sign in with a passkey').count()).toBe(0);
    const { key } = await openAccount(rowhouse, `Without passkeys ${name}`);
    await join(rowhouse, key, `without-${name}@example.com`, 'viewer');
    await enterPassword(page, `without-${name}@example.com`, password);
    await projects();
    await page.goto(at('profile'));
    await page.getByText('This browser has no passkeys.').waitFor();
    expect(await button('Add a passkey').count()).toBe(0);
    await page.goto(`${origin}/console/`);
    await enterPassword(page, `without-${name}@example.com`, password);
    await projects();
    await page.goto(`${origin}/console/profile`);
    await page.getByText(`Passkeys work under http://localhost:${port}/console/.`).waitFor();
    await page.context().close();
  });

  it('a provider whose answer is wrong signs nobody in, says so, and leaves the other ways', async () => {
    provider.people.set(`eve-${name}`, { email: `eve-${name}@example.com`, email_verified: true });
    await openPage();
    await page.goto(`${origin}/console/`);
    provider.setOnToken((answer) => ({ ...answer, id_token: 'not.a.token' }));
    await signInAtProvider(`eve-${name}`);
    await page.getByRole('alert').getByText('The sign-in with Example Login was refused').waitFor();
    await expectAccessible(page);
    provider.setOnToken(null);
    await button('Sign in another way').click();
    // Nobody has invited this one.
    await signInAtProvider(`eve-${name}`);
    await page.getByRole('alert').getByText(`Nobody has invited eve-${name}@example.com.`).waitFor();
    await button('Sign in another way').click();
    expect(await page.getByLabel('Email address').isEnabled()).toBe(true);
    await page.context().close();
  });

  it('a provider sends whoever was invited back to the console, signed in, with no code in the address', async () => {
    const { key } = await openAccount(rowhouse, `Providers ${name}`);
    await inviteTo(rowhouse, key, { email: `bob-${name}@example.com`, role: 'developer' });
    provider.people.set(`bob-${name}`, { email: `bob-${name}@example.com`, email_verified: true });
    await openPage();
    await page.goto(`${origin}/console/`);
    await signInAtProvider(`bob-${name}`);
    await projects();
    expect(page.url()).not.toMatch(/code|state/);
    expect(await page.evaluate(() => JSON.stringify({ ...sessionStorage }))).not.toContain('flow');
    // An answer that began elsewhere opens nothing.
    const other = await (await browser.newContext()).newPage();
    await other.goto(`${origin}/console/signed-in?code=x&state=y`);
    await other.getByText('was refused, took too long, or began in another tab').waitFor();
    await other.context().close();
  });

  it('somebody without a password joins another account by one click, and is asked for none', async () => {
    const { key } = await openAccount(rowhouse, `Joined ${name}`);
    const link = await inviteTo(rowhouse, key, { email: `bob-${name}@example.com`, role: 'viewer' });
    await page.goto(link);
    await page.getByText(`You are signed in as bob-${name}@example.com.`).waitFor();
    await expectAccessible(page);
    expect(await page.getByLabel('Your password').count()).toBe(0);
    await button('Join').click();
    await projects();
    await page.getByText(`Joined ${name}`).first().waitFor();
    await page.goto(`${origin}/console/profile`);
    await page.getByText('You have none: you sign in another way.').waitFor();
    await page.getByRole('table', { name: 'Accounts' }).getByText(`Joined ${name}`).waitFor();
    // After some minutes, only a new sign-in proves the identity.
    laterMs += 6 * 60_000;
    await button('Disconnect').click();
    await dialog('Confirm that it is you').getByText('Sign out, then sign in again').waitFor();
    await dialog('Confirm that it is you').getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    await page.context().close();
  });

  it.runIf(name === 'chromium')(
    'a passkey is added, renamed, signs in, confirms, and is removed',
    async () => {
      const { key } = await openAccount(rowhouse, 'Passkeys');
      await join(rowhouse, key, 'ada@example.com', 'owner');
      await openPage();
      const devtools = await page.context().newCDPSession(page);
      await devtools.send('WebAuthn.enable');
      await devtools.send('WebAuthn.addVirtualAuthenticator', {
        options: {
          protocol: 'ctap2',
          transport: 'internal',
          hasResidentKey: true,
          hasUserVerification: true,
          isUserVerified: true,
          automaticPresenceSimulation: true,
        },
      });
      await page.goto(at());
      await enterPassword(page, 'ada@example.com', password);
      await projects();
      await page.goto(at('profile'));
      await page.getByLabel('Name of a new passkey').fill('Laptop');
      await button('Add a passkey').click();
      await passkey('Laptop').waitFor();
      await act('Laptop', 'Rename');
      await fill(dialog('Rename Laptop').getByLabel('Name'), 'Work laptop');
      await expectAccessible(page);
      await dialog('Rename Laptop').getByRole('button', { name: 'Rename' }).click();
      await passkey('Work laptop').waitFor();
      await forgetSession();
      await page.goto(at());
      await button('Sign in with a passkey').click();
      await projects();
      await page.goto(at('profile'));
      // After some minutes, the service wants to know again who it is. The passkey suffices.
      laterMs += 6 * 60_000;
      await act('Work laptop', 'Remove');
      await button('Use a passkey').click();
      await expect.poll(() => passkey('Work laptop').count(), { timeout: 20_000 }).toBe(0);
      await page.getByLabel('Name of a new passkey').fill('Laptop');
      await button('Add a passkey').click();
      await passkey('Laptop').waitFor();
    },
  );

  it.runIf(name === 'chromium')(
    'a session by password alone is asked for the passkey before it changes a way to sign in',
    async () => {
      await forgetSession();
      await page.goto(at());
      await enterPassword(page, 'ada@example.com', password);
      await projects();
      await page.goto(at('profile'));
      await page.getByLabel('Name of a new passkey').fill('Phone');
      const asked = dialog('Confirm that it is you');
      await act('Laptop', 'Remove');
      await asked.getByText('A password alone is not enough here.').waitFor();
      expect(await asked.getByLabel('Password').count()).toBe(0);
      await expectAccessible(page);
      await asked.getByRole('button', { name: 'Cancel' }).click();
      await page.getByText('You have a second factor, and this session has not proved it.').waitFor();
      await passkey('Laptop').waitFor();
      await act('Laptop', 'Remove');
      await asked.getByRole('button', { name: 'Use a passkey' }).click();
      await expect.poll(() => passkey('Laptop').count(), { timeout: 20_000 }).toBe(0);
      await button('Add a passkey').click();
      await passkey('Phone').waitFor();
    },
  );

  it.runIf(name === 'chromium')(
    'somebody who has only a passkey opens an invitation, signs in, and is back at it',
    async () => {
      await rowhouse.service.deps.control.query(
        sql`update people set password_hash = null where email = 'ada@example.com'`,
      );
      const { key } = await openAccount(rowhouse, 'Second home');
      const link = await inviteTo(rowhouse, key, { email: 'ada@example.com', role: 'viewer' });
      await forgetSession();
      await page.goto(at(`#${link.split('#')[1]}`));
      await page.getByRole('heading', { name: 'Join Second home' }).waitFor();
      await button('Sign in another way').click();
      await button('Sign in with a passkey').click();
      await page.getByText('You are signed in as ada@example.com.').waitFor();
      await button('Join').click();
      await projects();
      await page.getByText('Second home').first().waitFor();
      // Without a password, the passkey alone confirms.
      laterMs += 6 * 60_000;
      await page.goto(at('profile'));
      await act('Phone', 'Remove');
      const asked = dialog('Confirm that it is you');
      await asked.getByText('Use your passkey to continue').waitFor();
      expect(await asked.getByLabel('Password').count()).toBe(0);
      await asked.getByRole('button', { name: 'Use a passkey' }).click();
      await expect.poll(() => passkey('Phone').count(), { timeout: 20_000 }).toBe(0);
      await page.context().close();
    },
  );
});
