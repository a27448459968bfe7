// A visit to the console, which is what the browser tests share: a service with the built pages, a browser with one page
// on it, a project, the sign-in, and the parts of a page that people look for.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, onTestFailed } from 'vitest';
import {
  type Call,
  type TestService,
  type TestServiceOptions,
  useTestService,
} from '../../server/test/support/helpers.ts';
import { launch, newDataFolder, type Running } from '../../server/test/support/process.ts';
import { type BrowserName, keepScreenshot, openBrowser, openPage, signIn } from './browser.ts';

export type ConsoleService = Pick<TestService, 'accountKey' | 'call'> & { origin: string };
export type ListeningService = TestService & ConsoleService;

export const builtConsole = { hosts: [], folder: fileURLToPath(new URL('../dist', import.meta.url)) };

/** One service for the browsers of a file. `prepare` runs once, before the first of them. */
export function useConsoleService(
  options: Omit<TestServiceOptions, 'console'> = {},
  prepare?: (rowhouse: TestService) => Promise<void>,
): ListeningService {
  return useListening(useTestService({ ...options, console: builtConsole }), prepare);
}

/** For a service that was made with the built console. */
export function useListening(
  rowhouse: TestService,
  prepare: (rowhouse: TestService) => Promise<void> = async () => {},
): ListeningService {
  beforeAll(async () => {
    await prepare(rowhouse);
    Object.assign(rowhouse, { origin: await rowhouse.app.listen({ host: '127.0.0.1', port: 0 }) });
  });
  return rowhouse as ListeningService;
}

/** The program itself in a new data folder, with backups. */
export function useStartedService(): ConsoleService & Pick<Running, 'output'> {
  const started = {} as ConsoleService & Pick<Running, 'output'>;
  let running: Running | undefined;
  beforeAll(async () => {
    const folder = newDataFolder();
    running = await launch({
      ROWHOUSE_DATA: folder,
      ROWHOUSE_BACKUP_URL: `file:${path.join(folder, 'backups')}`,
    });
    const { url, output, call } = running;
    const [key = ''] = /rh_acct_\w+/.exec(output()) ?? [];
    Object.assign(started, {
      origin: url,
      accountKey: key,
      output,
      call: (method: string, target: string, options: Call = {}) => call(method, target, { key, ...options }),
    });
  });
  afterAll(async () => {
    await running?.stop();
  });
  return started;
}

export type Visit = ReturnType<typeof useVisit>;

/** One browser with one page, on which the tests of a block go on from each other. `slug`: the project that they work in. */
export function useVisit(
  name: BrowserName,
  service: ConsoleService,
  slug: string,
  { width = 1280, foreignHost }: { width?: number; foreignHost?: string } = {},
) {
  const opened = {} as { browser: Browser; page: Page };
  /** Errors, violations of the security policy and requests to other origins, on any page of the visit. */
  const problems: string[] = [];
  const openAnotherPage = async (): Promise<Page> => {
    await opened.page?.context().close();
    const watched = await openPage(opened.browser, service.origin, width, problems);
    opened.page = watched.page;
    return opened.page;
  };
  beforeAll(async () => {
    opened.browser = await openBrowser(name, foreignHost);
    await openAnotherPage();
  });
  afterAll(async () => {
    await opened.browser?.close();
  });
  beforeEach(() => {
    onTestFailed(() => keepScreenshot(opened.page, name));
  });

  /** Within the project, as the account. Fails unless it succeeds. */
  const call = async (method: string, path: string, body?: object) => {
    const answer = await service.call(method, `/projects/${slug}${path}`, { ...(body && { body }) });
    expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
    return answer.body;
  };
  return {
    get page() {
      return opened.page;
    },
    get browser() {
      return opened.browser;
    },
    problems,
    /** With nothing in its storage. It takes the place of the page of the visit. */
    openAnotherPage,
    ...partsOf(() => opened.page),
    call,
    query: async (sql: string) => (await call('POST', '/query', { query: sql })).rows,
    open: (screen: string) => opened.page.goto(`${service.origin}/console/projects/${slug}/${screen}`),
    createProject: async () => {
      const created = await service.call('POST', '/projects', { body: { name: slug, slug, limit_mb: 64 } });
      expect(created.status, JSON.stringify(created.body)).toBe(201);
    },
    signIn: async () => {
      await signIn(opened.page, service.origin, service.accountKey);
      await opened.page.getByRole('heading', { name: 'Projects' }).waitFor();
    },
    signOut: async () => {
      await partsOf(() => opened.page).askToSignOut();
      await opened.page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    },
  };
}

/** What a person finds on a page, by the names that they read. */
export function partsOf(page: () => Page) {
  const named = (role: 'button' | 'link' | 'gridcell' | 'menuitem') => (name: string) =>
    page().getByRole(role, { name, exact: true });
  const editor = () => page().locator('.sql-editor .cm-content');
  return {
    button: named('button'),
    link: named('link'),
    cell: named('gridcell'),
    menuItem: named('menuitem'),
    dialog: (name?: string) => page().getByRole('dialog', { ...(name !== undefined && { name }) }),
    editor,
    writeSql: async (text: string) => {
      await editor().focus();
      await page().keyboard.press('Control+a');
      await page().keyboard.type(text);
    },
    askToSignOut: async () => {
      await named('button')('default').click();
      await named('menuitem')('Sign out').click();
    },
  };
}
