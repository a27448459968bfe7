// Real browsers for the tests of the console.
import { mkdtempSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  type Browser,
  chromium,
  firefox,
  type LaunchOptions,
  type Locator,
  type Page,
} from 'playwright-core';
import { describe, expect } from 'vitest';
import { environment, root } from '../../server/test/support/toolchains.ts';

const browserNames = ['chromium', 'firefox'] as const;
export type BrowserName = (typeof browserNames)[number];

const { findBrowser, howToInstall } = (await import(path.join(root, 'scripts/browsers.mjs'))) as {
  findBrowser(name: BrowserName): LaunchOptions | null;
  howToInstall(name: BrowserName): string;
};

type Title = string | { title: string; longIn: BrowserName };

/**
 * The same tests in each browser. Those of a browser that could not be installed are skipped, and say so. Those in `longIn` are
 * tests of the long run.
 */
export function inBrowsers(given: Title, tests: (name: BrowserName) => void): void {
  const { title, longIn } = typeof given === 'string' ? { title: given, longIn: null } : given;
  for (const name of browserNames) {
    const isMissing = findBrowser(name) === null;
    if (isMissing)
      console.error(`SKIPPED: ${title} in ${name}, which is not installed. ${howToInstall(name)}`);
    const tags = name === longIn ? ['long'] : [];
    describe.skipIf(isMissing)(`${title} in ${name}`, { tags }, () => tests(name));
  }
}

/** `foreignHost`: a name that leads to this machine in this browser. */
export async function openBrowser(name: BrowserName, foreignHost?: string): Promise<Browser> {
  const options = findBrowser(name);
  if (!options) throw new Error(`${name} is not installed. ${howToInstall(name)}`);
  return { chromium, firefox }[name].launch({
    ...options,
    // Firefox needs a home folder that it can write to.
    env: environment,
    ...(foreignHost !== undefined && {
      args: name === 'chromium' ? [`--host-resolver-rules=MAP ${foreignHost} 127.0.0.1`] : [],
      firefoxUserPrefs: { 'network.dns.localDomains': foreignHost },
    }),
  });
}

/** For one step on a page that takes less than a second on an idle machine. */
export const patienceMs = 60_000;

export type Watched = { page: Page; problems: string[] };

/** A page that remembers errors, violations of the content security policy, and requests to other origins. */
export async function openPage(
  browser: Browser,
  origin: string,
  width = 1280,
  problems: string[] = [],
): Promise<Watched> {
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    // A dialog that is still fading in has too little contrast.
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(patienceMs);
  page.on('pageerror', (error) => problems.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    if (dialog.type() === 'beforeunload') return void dialog.accept();
    problems.push(`a script ran: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    if (!/Content.Security.Policy|TrustedScript/i.test(message.text())) return;
    const { url, lineNumber, columnNumber } = message.location();
    problems.push(`${page.url()}: ${message.text()} (${url}:${lineNumber}:${columnNumber})`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(origin)) problems.push(`left the origin: ${request.url()}`);
  });
  return { page, problems };
}

export async function signIn(page: Page, origin: string, apiKey: string): Promise<void> {
  await page.goto(`${origin}/console/`);
  await enterKey(page, apiKey);
}

/** The page remembers the way of the last sign-in. */
export async function enterKey(page: Page, apiKey: string): Promise<void> {
  const other = page.getByRole('button', { name: 'Use an API key' });
  const field = page.getByLabel('API key', { exact: true });
  await other.or(field).first().waitFor();
  if (await other.isVisible()) await other.click();
  await fill(field, apiKey);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

export async function enterPassword(page: Page, email: string, password: string): Promise<void> {
  const other = page.getByRole('button', { name: 'Use an email address' });
  const field = page.getByLabel('Email address');
  await other.or(field).first().waitFor();
  if (await other.isVisible()) await other.click();
  await fill(field, email);
  await fill(page.getByLabel('Password', { exact: true }), password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

/** Typed key by key: the text that playwright puts into Firefox at once does not reach React. */
export async function fill(field: Locator, text: string): Promise<void> {
  const { keyboard } = field.page();
  await field.focus();
  await keyboard.press('Control+a');
  await keyboard.press('Delete');
  await keyboard.type(text);
  expect(await field.inputValue()).toBe(text);
}

/** Whether the browser would ask before the tab is closed. */
export function asksBeforeLeaving(page: Page): Promise<boolean> {
  return page.evaluate(() => !dispatchEvent(new Event('beforeunload', { cancelable: true })));
}

/** How a time is typed depends on the language of the browser, so the field gets it from the page, as React expects it. */
export async function fillTime(field: Locator, ms: number): Promise<void> {
  await field.evaluate((element, at) => {
    const time = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
    const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value') ?? {};
    set?.call(element, time.toISOString().slice(0, 19));
    element.dispatchEvent(new Event('input', { bubbles: true }));
  }, ms);
}

/** As a person's Ctrl V does it. Firefox gives a script no access to the clipboard of the machine. */
export async function pasteText(target: Locator, text: string): Promise<void> {
  await target.evaluate((element, pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', pasted);
    // Firefox takes the text from fields of its own.
    const own = { dataType: 'text/plain', data: pasted };
    const init = { clipboardData, bubbles: true, cancelable: true, ...own };
    element.dispatchEvent(new ClipboardEvent('paste', init));
  }, text);
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Injected by evaluate, which the content security policy of the page does not stop. */
export async function expectAccessible(page: Page): Promise<void> {
  // While a dialog fades in, its colours have less contrast.
  await page.evaluate(async () => {
    const endOf = ({ effect }: Animation) => effect?.getComputedTiming().endTime;
    const ending = document
      .getAnimations()
      .filter((animation) => endOf(animation) !== Number.POSITIVE_INFINITY);
    await Promise.allSettled(ending.map(({ finished }) => finished));
  });
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    const { violations } = await axe.run();
    return violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`,
    );
  });
  expect(found).toEqual([]);
}

/** Small enough for a repository. The browser converts it: playwright writes PNG only. */
export async function toWebp(browser: Browser, png: Buffer): Promise<Buffer> {
  const page = await browser.newPage();
  try {
    const url = await page.evaluate(async (base64) => {
      const image = new Image();
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const canvas = Object.assign(document.createElement('canvas'), {
        width: image.width,
        height: image.height,
      });
      canvas.getContext('2d')?.drawImage(image, 0, 0);
      return canvas.toDataURL('image/webp', 0.8);
    }, png.toString('base64'));
    return Buffer.from(url.slice(url.indexOf(',') + 1), 'base64');
  } finally {
    await page.close();
  }
}

/** Keeps what the page looked like when a test failed. */
export async function keepScreenshot(page: Page, name: string): Promise<void> {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'rowhouse-console-')), `${name}.png`);
  await page.screenshot({ path: file });
  console.warn(`The page when the test failed: ${file}`);
}
