// Whatever DDL changes while statements run: who asks afterwards gets what a new connection would get, and who asks meanwhile gets what
// was right before, in between or after.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openSecondProcess, type TestService, until, useTestService } from '../support/helpers.ts';
import { runDirectly } from '../support/proxy-clients.ts';
import { cases } from './stale-cases.ts';

const rowhouse = useTestService({ spares: 3, connections: { budget: 40, share: 8 } });
let other: TestService;
beforeAll(async () => {
  other = await openSecondProcess(rowhouse, { connections: { budget: 40, share: 8 } });
});
afterAll(() => other.stop());

type Project = { slug: string; key: string };
type Run = (project: Project, statements: string[]) => Promise<void>;
const ok = (answer: { body: unknown }) => expect(answer.body).toMatchObject({ ok: true });
const queryBy =
  (service: TestService): Run =>
  async ({ slug, key }, statements) => {
    for (const query of statements)
      ok(await service.call('POST', `/projects/${slug}/query`, { key, body: { query } }));
  };
const ways: Record<string, Run> = {
  '/query': (...what) => queryBy(rowhouse)(...what),
  '/batch': async ({ slug, key }, statements) => {
    const body = { statements: statements.map((query) => ({ query })) };
    ok(await rowhouse.call('POST', `/projects/${slug}/batch`, { key, body }));
  },
  'a direct session': ({ slug }, statements) => runDirectly(rowhouse, slug, statements),
  'another process of the service': (...what) => queryBy(other)(...what),
};
/** Its changes are seen by nobody else: what PostgreSQL does not notice takes effect after a while. */
const isUnseen = (way: string) => way === 'a direct session' || way === 'another process of the service';
const unseenMs = 10_000;

for (const [way, change] of Object.entries(ways))
  it(`nobody notices that a statement was kept when ${way} has changed its tables`, {
    timeout: 120_000,
  }, async () => {
    const project = await rowhouse.project('Changed');
    const ask = async (query: string, params: unknown[]) => {
      const body = { query, params };
      const answer = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body,
      });
      const { rows, columns, error } = answer.body;
      return JSON.stringify(error ? [error.code, error.sql?.state, error.message] : [rows, columns]);
    };
    /** The rows of the table, if there is one, by its endpoint. */
    const page = async (service: TestService, name: string) => {
      const path = `/projects/${project.slug}/tables/${name}?limit=5`;
      const { status, body } = await service.call('GET', path, { key: project.key });
      return JSON.stringify([status, body.rows, body.error?.code]);
    };
    let fresh = 0;
    // A new text is never found among those that are kept.
    const asNew = (query: string, params: unknown[]) => ask(`${query} -- ${++fresh}`, params);
    const late: { name: string; look: () => Promise<boolean> }[] = [];
    const wrong: unknown[] = [];
    for (const [at, [name, { params = [], isSilent, ...one }]] of Object.entries(cases).entries()) {
      const named = (text: string) => text.replace(/(?<![A-Za-z0-9])T(?=\b|_)/g, `t${at}`);
      const query = named(one.query);
      const then = one.afterwards ?? params;
      await queryBy(rowhouse)(project, one.first.map(named));
      for (let round = 0; round < 4; round++)
        for (const answer of await Promise.all(Array.from({ length: 10 }, () => ask(query, params))))
          expect(answer, name).toMatch(/^\[\[/);
      for (let round = 0; round < 3; round++) await page(rowhouse, `t${at}`);
      const before = await asNew(query, params);
      let isOver = false;
      const seen = new Set<string>();
      const load = Array.from({ length: 4 }, async () => {
        while (!isOver) seen.add(await ask(query, params));
      });
      await change(project, one.change.map(named));
      isOver = true;
      await Promise.all(load);
      const expected = await asNew(query, then);
      const answers = await Promise.all(Array.from({ length: 16 }, () => ask(query, then)));
      const different = answers.filter((answer) => answer !== expected);
      if (different.length > 0 && isSilent && isUnseen(way))
        late.push({ name, look: async () => (await ask(query, then)) === expected });
      else if (different.length > 0) wrong.push({ name, expected, different: [...new Set(different)] });
      const after = await asNew(query, params);
      // The other process has never seen the table.
      const pages = await Promise.all([rowhouse, other].map((service) => page(service, `t${at}`)));
      if (pages[0] !== pages[1]) wrong.push({ name, pages });
      const steps = one.change.length > 1 && way !== '/batch';
      // With several steps, each of them has an answer of its own.
      for (const answer of seen)
        if (
          answer !== before &&
          answer !== after &&
          !(steps && /"42\w{3}"|"22\w{3}"|"23\w{3}"|^\[\[/.test(answer))
        )
          wrong.push({ name, during: answer, before, after });
    }
    expect(wrong).toEqual([]);
    for (const { name, look } of late) await until(name, look, 10 * unseenMs);
  });
