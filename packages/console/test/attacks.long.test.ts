// Attacks on the console from real pages of strangers, in the browser in which a person is signed in: other ports, other
// sites, DNS rebinding, frames, and halves of a session.
import type { Page } from 'playwright-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  consoleApi,
  openPage as openSession,
  outcome,
  Page as Session,
} from '../../server/test/support/console-page.ts';
import { api, until } from '../../server/test/support/helpers.ts';
import { inBrowsers, patienceMs } from './browser.ts';
import { type Seen, strangersName, useHostileServer, watchForeignRequests } from './hostile-server.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService({ trustedProxies: ['loopback'] });
const hostile = useHostileServer();
let seen: Seen[] = [];
beforeAll(() => {
  seen = watchForeignRequests(rowhouse.app.server);
});
const portOfConsole = () => Number(new URL(rowhouse.origin).port);
const projects = async () => (await rowhouse.call('GET', '/projects')).body.projects.length;

inBrowsers('attacks on the console', (name) => {
  const visit = useVisit(name, rowhouse, `attacked-${name}`, { foreignHost: strangersName });
  let stranger: Page;
  let count = 0;

  beforeAll(async () => {
    await visit.createProject();
    await visit.signIn();
    count = await projects();
  });
  beforeEach(async () => {
    stranger = await visit.page.context().newPage();
    stranger.setDefaultTimeout(patienceMs);
    seen.length = 0;
  });
  afterEach(async () => {
    await stranger.close();
  });
  const answered = () => until('the service answers', async () => seen.length > 0);
  const expectUntouched = async () => {
    expect(await projects()).toBe(count);
    await visit.page.reload();
    await visit.page.getByRole('heading', { name: 'Projects' }).waitFor();
    expect(visit.problems).toEqual([]);
  };

  describe.each([
    { place: 'another port', host: '127.0.0.1', isSameSite: true },
    { place: 'another site', host: strangersName, isSameSite: false },
  ])('a page on $place', ({ host, isSameSite }) => {
    const visitStranger = () => stranger.goto(`http://${host}:${hostile.port}/`);

    it.each(simpleWrites)('changes nothing by $way', async ({ attack }) => {
      await visitStranger();
      await stranger.evaluate(attack, { origin: rowhouse.origin, api: consoleApi });
      await answered();
      // Between the ports of this machine, browsers send the cookie.
      expect(seen).toEqual([expect.objectContaining({ method: 'POST', status: 403, hasCookie: isSameSite })]);
      await expectUntouched();
    });

    it.each(preflightedWrites)('cannot even send $what', async ({ method, path, body }) => {
      await visitStranger();
      const result = await stranger.evaluate(sendWithHeaders, {
        url: rowhouse.origin + path,
        method,
        body,
        headers: { 'content-type': 'application/json', 'rowhouse-console-token': 'guessed' },
      });
      expect(result).toBe('blocked');
      await answered();
      expect(seen.map((request) => [request.method, request.status])).toEqual([['OPTIONS', 404]]);
      await expectUntouched();
    });

    it.each(reads)('reads nothing by $way', async ({ attack }) => {
      await visitStranger();
      const url = `${rowhouse.origin}${consoleApi}/projects`;
      expect(await stranger.evaluate(attack, url)).toBe('blocked');
      await answered();
      expect(seen.map(({ status }) => status)).toEqual([403]);
    });

    it('cannot load the files of the console', async () => {
      const file = await visit.page.evaluate(() => document.querySelector('script')?.src ?? '');
      expect(file).toContain('/console/assets/');
      await visitStranger();
      expect(await stranger.evaluate(loadScript, file)).toBe('blocked');
    });

    it('cannot show the console in a frame', async () => {
      await visitStranger();
      const loaded: string[] = [];
      stranger.on('request', (request) => loaded.push(new URL(request.url()).pathname));
      // It can show its own pages.
      await stranger.evaluate(addFrame, { url: '/inside', tag: 'iframe' as const });
      expect(stranger.frames().map((frame) => new URL(frame.url()).pathname)).toContain('/inside');
      for (const tag of ['iframe', 'object', 'embed'] as const)
        await stranger.evaluate(addFrame, { url: `${rowhouse.origin}/console/`, tag });
      await until('all were asked for', async () => seen.length === 3);
      expect(loaded.filter((path) => path.startsWith('/console/assets'))).toEqual([]);
      for (const frame of stranger.frames()) expect(frame.url().startsWith(rowhouse.origin)).toBe(false);
    });

    it('loses a window that shows the console', async () => {
      await visitStranger();
      const opening = stranger.context().waitForEvent('page');
      await stranger.evaluate((url) => {
        Object.assign(window, { opened: window.open(url) });
      }, `${rowhouse.origin}/console/`);
      const opened = await opening;
      await opened.getByRole('heading', { name: 'Projects' }).waitFor();
      expect(await opened.evaluate(() => window.opener)).toBe(null);
      const hold = () => (window as unknown as { opened: Window }).opened.closed;
      expect(await stranger.evaluate(hold)).toBe(true);
      await opened.close();
    });
  });

  it('the page of the API, which has the same origin, takes no description from elsewhere', async () => {
    const own = encodeURIComponent(`http://127.0.0.1:${hostile.port}/description.json`);
    const asked: string[] = [];
    stranger.on('request', (request) => asked.push(new URL(request.url()).origin));
    for (const parameter of ['url', 'configUrl', 'urls.primaryName', 'spec']) {
      await stranger.goto(`${rowhouse.origin}/docs/?${parameter}=${own}`);
      await stranger.locator('.swagger-ui .topbar').waitFor();
    }
    expect(new Set(asked)).toEqual(new Set([rowhouse.origin]));
  });

  describe('DNS rebinding: a name of a stranger leads to the console', () => {
    const rebound = () => `http://${strangersName}:${portOfConsole()}`;

    it('shows the reason instead of the console', async () => {
      for (const path of ['/', '/console/', '/console/projects']) {
        const answer = await stranger.goto(rebound() + path);
        expect(answer?.status()).toBe(403);
        expect(await stranger.locator('script, link, form').count()).toBe(0);
        await stranger.getByText('ROWHOUSE_CONSOLE_HOSTS').waitFor();
      }
    });

    it('a script of that name can neither sign in nor use a session, not even with a stolen token', async () => {
      // The origin is that of the stranger's scripts, which were loaded while the name led to another machine.
      await stranger.goto(`${rebound()}/console/`);
      const token = await tokenOf(visit.page);
      const headers = { 'content-type': 'application/json', 'rowhouse-console-token': token };
      const body = JSON.stringify({ api_key: rowhouse.accountKey });
      const requests = [
        { url: '/console/session', method: 'POST', headers, body },
        { url: '/console/session', method: 'GET', headers, body: undefined },
        { url: `${consoleApi}/projects`, method: 'GET', headers, body: undefined },
        { url: `${consoleApi}/projects`, method: 'POST', headers, body: '{"name":"Stolen"}' },
      ];
      for (const request of requests)
        expect(await stranger.evaluate(sendWithHeaders, request), request.url).toBe('403 forbidden');
      // The API itself answers under any name, and only with a key.
      const open = { url: `${api}/projects`, method: 'GET', headers: {}, body: undefined };
      expect(await stranger.evaluate(sendWithHeaders, open)).toBe('401 missing_api_key');
      await expectUntouched();
    });
  });

  describe('half of a session', () => {
    const stealCookie = async () => {
      hostile.cookies.length = 0;
      await stranger.goto(`http://127.0.0.1:${hostile.port}/console/anything`);
      const own = new RegExp(`rowhouse_console_${portOfConsole()}=[^;]+`);
      const [cookie] = own.exec(hostile.cookies.join('; ')) ?? [];
      return cookie ?? '';
    };
    const sessionWith = (halves: { cookie: string | undefined; token: string | undefined }) =>
      Object.assign(new Session(portOfConsole()), halves);

    it('a cookie that another port got hold of is worth nothing', async () => {
      const cookie = await stealCookie();
      expect(cookie).not.toBe('');
      const other = await openSession(rowhouse);
      for (const token of [undefined, '', other.token])
        expect(outcome(await sessionWith({ cookie, token }).call('GET', '/projects'))).toEqual([
          401,
          'session_required',
        ]);
      const [cookieName = '', value = ''] = cookie.split('=');
      const thief = await visit.browser.newContext();
      await thief.addCookies([{ name: cookieName, value, domain: '127.0.0.1', path: '/console' }]);
      await expectSignedOut(await thief.newPage());
      await thief.close();
    });

    it('a token without its cookie is worth nothing', async () => {
      const token = await tokenOf(visit.page);
      const { cookie } = await openSession(rowhouse);
      for (const stolen of [undefined, cookie])
        expect(outcome(await sessionWith({ token, cookie: stolen }).call('GET', '/projects'))).toEqual([
          401,
          'session_required',
        ]);
      const thief = await visit.browser.newContext();
      const page = await thief.newPage();
      await page.goto(`${rowhouse.origin}/console/`);
      await page.evaluate((stolen) => sessionStorage.setItem('rowhouse.console-token', stolen), token);
      await expectSignedOut(page);
      await thief.close();
    });

    it('a cookie that another port sets gives nobody a session', async () => {
      const { key } = await rowhouse.project('Of a stranger');
      count += 1;
      const planted = await openSession(rowhouse, key);
      const cookie = `${planted.cookie}; Path=/console; HttpOnly; SameSite=Strict`;
      await stranger.goto(`http://127.0.0.1:${hostile.port}/cookie?set=${encodeURIComponent(cookie)}`);
      await visit.page.reload();
      await visit.page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
      await visit.signIn();
      // Whatever became of the stranger's session: it did not become the person's.
      const { status, body } = await planted.call('GET', '/console/session');
      expect([status, body.scope]).toEqual([401, undefined]);
      await expectUntouched();
    });

    const expectSignedOut = async (page: Page) => {
      page.setDefaultTimeout(patienceMs);
      await page.goto(`${rowhouse.origin}/console/projects`);
      await page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    };
  });
});

const tokenOf = (page: Page) =>
  page.evaluate(() => sessionStorage.getItem('rowhouse.console-token') ?? 'none');

// What follows runs in the stranger's page.

type Target = { origin: string; api: string };

/** Requests that a browser sends without asking first. Each tries to create a project. */
const simpleWrites: { way: string; attack: (target: Target) => void }[] = [
  {
    way: 'a form in the form of JSON',
    attack: ({ origin, api: base }) => {
      const form = document.createElement('form');
      Object.assign(form, { method: 'post', enctype: 'text/plain', action: `${origin}${base}/projects` });
      const input = Object.assign(document.createElement('input'), {
        name: '{"name":"Stolen","a":"',
        value: '"}',
      });
      form.append(input);
      document.body.append(form);
      form.submit();
    },
  },
  {
    way: 'a form that goes to a frame',
    attack: ({ origin, api: base }) => {
      const frame = Object.assign(document.createElement('iframe'), { name: 'frame' });
      const form = document.createElement('form');
      Object.assign(form, { method: 'post', action: `${origin}${base}/projects`, target: 'frame' });
      form.append(Object.assign(document.createElement('input'), { name: 'name', value: 'Stolen' }));
      document.body.append(frame, form);
      form.submit();
    },
  },
  {
    way: 'fetch with credentials and without CORS',
    attack: ({ origin, api: base }) => {
      const init = { method: 'POST', mode: 'no-cors', credentials: 'include' } as const;
      void fetch(`${origin}${base}/projects`, { ...init, body: '{"name":"Stolen"}' });
    },
  },
  {
    way: 'XMLHttpRequest with credentials',
    attack: ({ origin, api: base }) => {
      const request = new XMLHttpRequest();
      request.open('POST', `${origin}${base}/projects`);
      request.withCredentials = true;
      request.send('{"name":"Stolen"}');
    },
  },
  {
    way: 'a beacon',
    attack: ({ origin, api: base }) => {
      navigator.sendBeacon(`${origin}${base}/projects`, '{"name":"Stolen"}');
    },
  },
  {
    way: 'signing the person in as somebody else',
    attack: ({ origin }) => {
      const init = { method: 'POST', mode: 'no-cors', credentials: 'include' } as const;
      void fetch(`${origin}/console/session`, { ...init, body: '{"api_key":"rh_acct_of_a_stranger"}' });
    },
  },
  {
    way: 'a redirect of its own server',
    attack: ({ origin, api: base }) => {
      const form = document.createElement('form');
      const action = `/redirect?to=${encodeURIComponent(`${origin}${base}/projects`)}`;
      Object.assign(form, { method: 'post', action });
      document.body.append(form);
      form.submit();
    },
  },
];

const preflightedWrites = [
  { what: 'JSON', method: 'POST', path: `${consoleApi}/projects`, body: '{"name":"Stolen"}' },
  { what: 'a deletion', method: 'DELETE', path: `${consoleApi}/projects/attacked`, body: undefined },
  { what: 'the end of the session', method: 'DELETE', path: '/console/session', body: undefined },
];

type Request = { url: string; method: string; headers: Record<string, string>; body: string | undefined };

async function sendWithHeaders({ url, ...init }: Request): Promise<string> {
  try {
    const response = await fetch(url, { ...init, credentials: 'include' } as RequestInit);
    const { error } = (await response.json()) as { error?: { code: string } };
    return `${response.status} ${error?.code}`;
  } catch {
    return 'blocked';
  }
}

function loadScript(url: string): Promise<string> {
  return new Promise((resolve) => {
    const script = Object.assign(document.createElement('script'), { src: url });
    script.onload = () => resolve('loaded');
    script.onerror = () => resolve('blocked');
    document.body.append(script);
  });
}

const reads: { way: string; attack: (url: string) => Promise<string> }[] = [
  {
    way: 'fetch with credentials',
    attack: (url) =>
      fetch(url, { credentials: 'include' }).then(
        ({ status }) => `${status}`,
        () => 'blocked',
      ),
  },
  { way: 'a script', attack: loadScript },
  {
    way: 'an image',
    attack: (url) =>
      new Promise((resolve) => {
        const image = new Image();
        image.onload = () => resolve('loaded');
        image.onerror = () => resolve('blocked');
        image.src = url;
      }),
  },
  {
    way: 'a style sheet',
    attack: (url) =>
      new Promise((resolve) => {
        const link = Object.assign(document.createElement('link'), { rel: 'stylesheet', href: url });
        link.onload = () => resolve('loaded');
        link.onerror = () => resolve('blocked');
        document.head.append(link);
      }),
  },
];

/** Ends when the browser has loaded it, or shows its own page about why not. Firefox says neither of <embed>. */
function addFrame({ url, tag }: { url: string; tag: 'iframe' | 'object' | 'embed' }): Promise<void> {
  return new Promise((resolve) => {
    const frame = document.createElement(tag);
    frame.setAttribute(tag === 'object' ? 'data' : 'src', url);
    frame.onload = () => resolve();
    frame.onerror = () => resolve();
    document.body.append(frame);
    if (tag === 'embed') resolve();
  });
}
