// Chromium with the TypeScript client in a page: reads rows as many users for some seconds.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { findBrowser, howToInstall } from '../../scripts/browsers.mjs';
import { lastId } from '../items.mjs';

/** A browser opens no more connections to a host than this. */
export const connections = 6;

/** Returns what starts a load, or the reason why there is none. */
export async function openChromium() {
  const found = findBrowser('chromium');
  if (!found) return `Chromium is not installed. ${howToInstall('chromium')}`;
  const { chromium } = createRequire(import.meta.url)('playwright-core');
  const bundle = path.resolve(import.meta.dirname, '../../packages/client/dist/index.min.js');
  const server = createServer((request, response) => {
    const isScript = request.url === '/client.js';
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
    response.end(isScript ? readFileSync(bundle) : '<!doctype html><title>Load</title>');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const browser = await chromium.launch(found);
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  return {
    run: (load) => page.evaluate(readAsUsers, { ...load, connections, lastId }),
    stop: async () => {
      await browser.close();
      server.close();
    },
  };
}

/** Runs in the page. Rows whose ids differ by the number of users belong to the same user. */
async function readAsUsers({ url, apiKey, tokens, seconds, connections: count, lastId: highest }) {
  const { createClient } = await import('/client.js');
  const client = createClient({ url, apiKey, project: 'bench', retries: 0 });
  const users = tokens.map((token) => client.asUser(token));
  const took = [];
  const began = performance.now();
  const loops = Array.from({ length: count }, async () => {
    while (performance.now() - began < seconds * 1000) {
      const user = Math.floor(Math.random() * users.length);
      const id = user + users.length * (1 + Math.floor((Math.random() * highest) / users.length));
      const before = performance.now();
      const { rows } = await users[user].table('notes').eq('id', id);
      if (rows.length !== 1) throw new Error(`${rows.length} rows`);
      took.push(performance.now() - before);
    }
  });
  await Promise.all(loops);
  return { seconds: (performance.now() - began) / 1000, took };
}
