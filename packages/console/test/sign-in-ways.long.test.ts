// Further ways to sign in, in a real browser: a passkey of Chromium's virtual authenticator, and another provider.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useTestService } from '../../server/test/helpers.ts';
import { startProvider } from '../../server/test/oidc-provider.ts';
import { enterPassword, openBrowser } from './browser.ts';
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
  ...{ console: builtConsole, consolePage: `${origin}/console/`, provider: provider.config },
}) as ListeningService;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  await rowhouse.app.listen({ host: '127.0.0.1', port });
  Object.assign(rowhouse, { origin });
  browser = await openBrowser('chromium');
});
afterAll(async () => {
  await browser?.close();
  await provider.stop();
});
const button = (name: string) => page.getByRole('button', { name, exact: true });
const laptop = () => page.getByRole('cell', { name: 'Laptop', exact: true });
const projects = () => page.getByRole('heading', { name: 'Projects' }).waitFor();

describe('a passkey', () => {
  it('is added in the profile, signs in, and is removed', async () => {
    const { key } = await openAccount(rowhouse, 'Passkeys');
    await join(rowhouse, key, 'ada@example.com', 'owner');
    page = await (await browser.newContext()).newPage();
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('WebAuthn.enable');
    await devtools.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        ...{ protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true },
        ...{ isUserVerified: true, automaticPresenceSimulation: true },
      },
    });
    const at = `http://localhost:${port}/console/`;
    await page.goto(at);
    await enterPassword(page, 'ada@example.com', password);
    await projects();
    await page.goto(`${at}profile`);
    await page.getByLabel('Name of a new passkey').fill('Laptop');
    await button('Add a passkey').click();
    await laptop().waitFor();
    await page.evaluate(() => sessionStorage.clear());
    await page.context().clearCookies();
    await page.goto(at);
    await button('Sign in with a passkey').click();
    await projects();
    await page.goto(`${at}profile`);
    // After some minutes, the service wants to know again who it is. The passkey suffices.
    laterMs += 6 * 60_000;
    await button('Remove the passkey Laptop').click();
    await button('Use a passkey').click();
    await expect.poll(() => laptop().count(), { timeout: 20_000 }).toBe(0);
    await page.context().close();
  });
});

describe('another provider', () => {
  it('sends whoever was invited back to the console, signed in, with no code in the address', async () => {
    const { key } = await openAccount(rowhouse, 'Providers');
    await inviteTo(rowhouse, key, { email: 'bob@example.com', role: 'developer' });
    provider.people.set('bob', { email: 'bob@example.com', email_verified: true });
    page = await (await browser.newContext()).newPage();
    await page.goto(`${origin}/console/`);
    await button('Sign in with Example Login').click();
    await page.locator('input[name=login]').fill('bob');
    await page.locator('input[name=password]').fill('any');
    await page.locator('button[type=submit]').click();
    await page.getByText('Authorize').first().waitFor();
    await page.locator('button[type=submit]').click();
    await projects();
    expect(page.url()).not.toMatch(/code|state/);
    expect(await page.evaluate(() => JSON.stringify({ ...sessionStorage }))).not.toContain('flow');
    // An answer that began elsewhere opens nothing.
    const other = await (await browser.newContext()).newPage();
    await other.goto(`${origin}/console/signed-in?code=x&state=y`);
    await other.getByText('was refused, took too long, or began in another tab').waitFor();
    await other.context().close();
    await page.context().close();
  });
});
