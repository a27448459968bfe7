// deploy/monitoring against a live service: every metric that the alerts and the dashboard name exists, and Prometheus' own tool
// accepts the files and what /metrics returns.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { cleanUp, freePort, launch, newAccountKey, usedDataFolder } from '../support/process.ts';
import { findProgram } from '../support/programs.ts';
import { root } from '../support/toolchains.ts';

type Rules = {
  groups: {
    rules: { alert: string; expr: string; labels: object; annotations: Record<string, string> }[];
  }[];
};
type Dashboard = { panels: { type: string; title: string; targets?: { expr: string }[] }[] };

const folder = path.join(root, 'deploy', 'monitoring');
const read = (file: string) => readFileSync(path.join(folder, file), 'utf8');
const rules = (parse(read('alerts.yml')) as Rules).groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(read('dashboard.json')) as Dashboard;

/** Metrics of Prometheus itself. */
const others = ['up'];
const namesIn = (expression: string) =>
  expression
    .replaceAll(/\{[^}]*\}|"[^"]*"|\[[^\]]*\]|\b(by|without) ?\([^)]*\)/g, ' ')
    .match(/\b[a-z_:][\w:]*\b(?!\s*\()/g) ?? [];
const words = new Set(['or', 'and', 'unless', 'bool', 'on', 'ignoring']);

let metrics: string;
afterAll(cleanUp);
beforeAll(async () => {
  const data = await usedDataFolder();
  const service = await launch({
    ROWHOUSE_DATA: data,
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_POSTGRES_PORT: String(await freePort()),
    ROWHOUSE_BACKUP_URL: `file:${data}/backups`,
  });
  await service.call('GET', '/projects');
  metrics = (await service.call('GET', '/metrics')).body as string;
});

it('every metric of the alerts and of the dashboard exists', () => {
  const exposed = new Set([...metrics.matchAll(/^([a-z_]\w*)(?:\{.*\})? /gm)].map(([, name]) => name));
  // A counter has no sample until it has counted.
  for (const [, name] of metrics.matchAll(/^# TYPE (\S+) counter$/gm)) exposed.add(name);
  const panels = dashboard.panels.filter(({ type }) => type !== 'row');
  const expressions = [
    ...rules.map(({ alert, expr }) => [alert, expr] as const),
    ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const)),
  ];
  expect(expressions.length).toBeGreaterThan(50);
  for (const [where, expression] of expressions) {
    const names = namesIn(expression).filter((name) => !words.has(name));
    expect(names, where).not.toEqual([]);
    for (const name of names.filter((each) => !others.includes(each)))
      expect(exposed.has(name), `${where}: ${name}`).toBe(true);
  }
});

it('every alert says what to do and names a page that exists', () => {
  for (const { alert, labels, annotations } of rules) {
    expect(labels, alert).toEqual({ severity: expect.stringMatching(/^(critical|warning|info)$/) });
    expect(Object.keys(annotations), alert).toEqual(['summary', 'description', 'page']);
    const [page = '', anchor] = annotations.page?.split('#') ?? [];
    expect(existsSync(path.join(root, page)), `${alert}: ${page}`).toBe(true);
    const headings = [...readFileSync(path.join(root, page), 'utf8').matchAll(/^#+ (.*)$/gm)].map(
      ([, heading = '']) =>
        heading
          .toLowerCase()
          .replace(/[^\w\s-]/g, '')
          .replaceAll(' ', '-'),
    );
    if (anchor) expect(headings, alert).toContain(anchor);
  }
});

it('the pages name metrics that exist', () => {
  const docs = ['backups', 'fleet', 'limits', 'operating', 'monitoring', 'production'].map((name) =>
    readFileSync(path.join(root, 'docs', `${name}.md`), 'utf8'),
  );
  const named = new Set(docs.join('\n').match(/\browhouse_[a-z_]+[a-z]\b(?=`)/g));
  for (const name of named) expect(metrics, name).toContain(`# TYPE ${name} `);
});

const promtool = await findProgram('promtool', 'it does not check deploy/monitoring');

it.skipIf(promtool === null)('promtool accepts the files, their tests pass, and it can read /metrics', () => {
  const run = (args: string[], input = '') =>
    spawnSync(promtool ?? '', args, { cwd: folder, input, encoding: 'utf8' });
  for (const args of [
    ['check', 'rules', 'alerts.yml'],
    ['test', 'rules', 'alerts.test.yml'],
    ['check', 'config', 'prometheus.yml'],
  ]) {
    const { status, stdout, stderr } = run(args);
    expect(status, stdout + stderr).toBe(0);
  }
  // Status 3: it can read them and would name some differently.
  const { status, stderr } = run(['check', 'metrics'], metrics);
  expect([0, 3], stderr).toContain(status);
});
