// The console in a real browser: what the first screen and the SQL screen transfer, and the grid over a large table.
// npm run bench -- console [--rows 1000000] [--scroll 10000] [--repeats 5] [--quick] [--write]. Needs Chromium.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { findBrowser, howToInstall } from '../scripts/browsers.mjs';
import { median, startService, stop } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const options = readOptions({
  rows: { quick: 50_000, full: 1_000_000, what: 'rows of the table' },
  scroll: { quick: 2_000, full: 10_000, what: 'rows to scroll through' },
  repeats: { quick: 1, full: 5 },
});
const { chromium } = createRequire(import.meta.url)('playwright-core');
const found = findBrowser('chromium');
if (!found) {
  console.error(`Chromium is not installed. ${howToInstall('chromium')}`);
  process.exit(1);
}
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-console-'));
const ours = await startService(folder);
const origin = `http://127.0.0.1:${ours.port}`;
const rows = [];
const browser = await chromium.launch(found);

/** A page that counts the bytes of scripts and styles as they were transferred. */
async function openPage() {
  // Brotli is smaller; gzip is what every proxy passes on.
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    extraHTTPHeaders: { 'accept-encoding': 'gzip' },
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const sizes = [];
  page.on('requestfinished', (request) => {
    if (['script', 'stylesheet'].includes(request.resourceType())) sizes.push(request.sizes());
  });
  const transferred = async () =>
    (await Promise.all(sizes)).reduce((sum, { responseBodySize }) => sum + responseBodySize, 0);
  return { page, transferred };
}

async function signIn(page) {
  await page.goto(`${origin}/console/`);
  await page.getByRole('button', { name: 'Use an API key' }).click();
  await page.getByLabel('API key').fill(ours.accountKey);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('table', { name: 'Projects' }).waitFor();
}

async function measureTransfers() {
  const { page, transferred } = await openPage();
  await signIn(page);
  const first = await transferred();
  await page.goto(`${origin}/console/projects/${ours.slug}/sql`);
  await page.locator('.sql-editor .cm-content').waitFor();
  // A file that the browser has already is not transferred again.
  const all = await transferred();
  const kb = (bytes) => `${(bytes / 1000).toFixed(1)} KB`;
  rows.push(['first screen: JS and CSS, gzip', kb(first), '≤ 120 KB']);
  rows.push(['added by the SQL screen', kb(all - first), '≤ 150 KB']);
  await page.context().close();
}

async function measureGrid() {
  const { page } = await openPage();
  await signIn(page);
  const times = [];
  for (let turn = -1; turn < options.repeats; turn++) {
    await page.goto(`${origin}/console/projects`);
    await page.getByRole('table', { name: 'Projects' }).waitFor();
    const began = performance.now();
    await page.goto(`${origin}/console/projects/${ours.slug}/tables/items`);
    await page.getByRole('gridcell', { name: 'Item number 1', exact: true }).waitFor();
    if (turn >= 0) times.push(performance.now() - began);
  }
  const many = options.rows.toLocaleString('en');
  rows.push([`first row of ${many}, from the address`, `${median(times).toFixed(0)} ms`, '']);
  const before = await memoryOf(page);
  const { ms, frames, slowest } = await scroll(page);
  const after = await memoryOf(page);
  const scrolled = options.scroll.toLocaleString('en');
  rows.push([`scrolling through ${scrolled} rows, read by cursor`, `${(ms / 1000).toFixed(1)} s`, '']);
  rows.push(['frames a second meanwhile', (frames / (ms / 1000)).toFixed(0), '']);
  rows.push(['slowest frame', `${slowest.toFixed(0)} ms`, '']);
  const mb = ({ heap }) => `${(heap / 1024 / 1024).toFixed(1)} MB`;
  rows.push(['JS heap before', mb(before), '']);
  rows.push([`JS heap after ${scrolled} rows`, mb(after), '']);
  rows.push(['elements of the page before and after', `${before.nodes} and ${after.nodes}`, '']);
  await page.context().close();
}

/** Twenty rows a frame, faster than a person turns a wheel, until enough rows have passed. */
function scroll(page) {
  return page.evaluate(async (wanted) => {
    const grid = document.querySelector('[role="grid"]');
    const rowHeight = grid.querySelector('[role="gridcell"]').getBoundingClientRect().height;
    const began = performance.now();
    let [frames, slowest, last] = [0, 0, began];
    while (grid.scrollTop < wanted * rowHeight - grid.clientHeight) {
      grid.scrollTop += rowHeight * 20;
      const now = await new Promise(requestAnimationFrame);
      slowest = Math.max(slowest, now - last);
      last = now;
      frames += 1;
      if (performance.now() - began > 300_000) throw new Error('The grid did not reach the last row.');
    }
    return { ms: performance.now() - began, frames, slowest };
  }, options.scroll);
}

async function memoryOf(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  await session.send('Performance.enable');
  const { metrics } = await session.send('Performance.getMetrics');
  const nodes = await page.locator('*').count();
  await session.detach();
  return { heap: metrics.find(({ name }) => name === 'JSHeapUsedSize').value, nodes };
}

try {
  await ours.query(
    'create table items (id bigint primary key, name text, price numeric(10,2), in_stock boolean, tags jsonb, created_at timestamptz)',
  );
  await ours.query(
    `insert into items select n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, ${options.rows}) as n`,
  );
  await ours.query('vacuum analyze items');
  await measureTransfers();
  await measureGrid();
} finally {
  await browser.close();
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
report('console', ['', 'measured', 'goal'], rows, options.write, {
  notes: [
    'Chromium without a window, on the machine of the service. The grid scrolls by 20 rows a frame and waits where the next page has not arrived.',
  ],
});
