// A project that sends floods of new SQL texts takes nothing from a neighbour: neither its turn at the parser, nor the
// statements of its that are known already.
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2 });
type Project = { slug: string; id: string; key: string };
let flood: Project;
let neighbour: Project;
let serial = 0;

const run = (project: Project, query: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query, ...more } });
const parser = () => rowhouse.service.deps.query.parser;
/** New, of about so many characters, and as hard to parse as any: PostgreSQL refuses it at once for its columns. */
const newText = (length: number) => `select ${++serial}${',1+1'.repeat(length / 4)}`;
/** New and of such a length, and quick to run. */
const newFine = (length: number) => `select ${++serial} as n where 1 in (1${',1'.repeat(length / 2)})`;

beforeAll(async () => {
  flood = await rowhouse.project('Flood');
  neighbour = await rowhouse.project('Neighbour');
  // The threads start with the first text of each size.
  for (const length of [10, 10_000, 100_000]) await run(neighbour, newFine(length));
});

afterEach(async () => {
  for (const project of [flood, neighbour])
    expect((await run(project, 'select 1 as fine')).body.rows).toEqual([{ fine: 1 }]);
});

async function medianMs(ask: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < 7; n++) {
    const began = performance.now();
    await ask();
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b)[3] as number;
}

/** Floods as long as `work` takes: what was answered is sent anew. */
async function beside<T>(width: number, send: () => Promise<unknown>, work: () => Promise<T>): Promise<T> {
  let isOver = false;
  const senders = Array.from({ length: width }, async () => {
    while (!isOver) await send();
  });
  try {
    return await work();
  } finally {
    isOver = true;
    await Promise.all(senders);
  }
}

describe('the wait for the parser', () => {
  // With one queue for all, a new text waits for as many as are in front of it: 60 of 16 KB take 1.3 s.
  it.each([
    ['short texts', 300, 1_500, 100],
    ['texts of 16 KB', 60, 16_000, 100],
    ['texts of 60 KB, with one of 17 KB', 20, 60_000, 17_000],
    ['texts of 16 KB, with one of 3 KB', 60, 16_000, 3_000],
  ])('beside a flood of %s is one text for a neighbour', async (_name, width, length, own) => {
    const parse = async () => parser().parse(neighbour, newFine(own));
    const control = await medianMs(parse);
    const beneath = await beside(
      width,
      () => parser().parse(flood, newText(length)),
      () => medianMs(parse),
    );
    expect(beneath).toBeLessThan(control * 10 + 500);
  });

  it('is short for 17 KB beside texts of 1 MB', async () => {
    const ask = () => run(neighbour, newFine(17_000));
    const control = await medianMs(ask);
    const beneath = await beside(
      3,
      () => run(flood, newText(1_000_000), { timeout_ms: 60_000 }),
      () => medianMs(ask),
    );
    expect(beneath).toBeLessThan(control * 10 + 500);
  });

  it('is one text of a flood for a neighbour with a large text', async () => {
    const answered: string[] = [];
    const ask = async (project: Project, name: string) => {
      await run(project, newText(150_000), { timeout_ms: 60_000 });
      answered.push(name);
    };
    const hogging = Array.from({ length: 8 }, () => ask(flood, 'flood'));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await ask(neighbour, 'neighbour');
    await Promise.all(hogging);
    expect(answered.indexOf('neighbour')).toBeLessThan(4);
  });

  it('is fair on every endpoint that takes SQL', async () => {
    const { body: place } = await rowhouse.call('GET', `/projects/${neighbour.slug}/connection`);
    const ways = {
      query: () => run(neighbour, newFine(10)),
      batch: () =>
        rowhouse.call('POST', `/projects/${neighbour.slug}/batch`, {
          key: neighbour.key,
          body: { statements: [{ query: newFine(10) }, { query: newFine(10) }] },
        }),
      neon: () =>
        rowhouse.call('POST', '/sql', {
          key: '',
          headers: { 'neon-connection-string': place.connection.url },
          body: { query: newFine(10), params: [] },
        }),
    };
    const floods = () =>
      rowhouse.call('POST', `/projects/${flood.slug}/batch`, {
        key: flood.key,
        body: { statements: Array.from({ length: 4 }, () => ({ query: newText(16_000) })) },
      });
    for (const way of Object.values(ways)) {
      const control = await medianMs(way);
      expect(await beside(30, floods, () => medianMs(way))).toBeLessThan(control * 10 + 500);
    }
  });
});

describe('texts that wait for the parser', () => {
  it('are bounded in size per project: 429 with Retry-After, and the neighbour is served', async () => {
    const large = 'x'.repeat(1_000_000);
    const asked = Array.from({ length: 12 }, () => run(flood, `select ${++serial} -- ${large}`));
    const refused = await Promise.race(asked);
    expect([refused.status, refused.body.error.code]).toEqual([429, 'overloaded']);
    expect(refused.headers['retry-after']).toBe('1');
    expect(refused.body.error.message).toBe(
      'Too many new statements of this project are waiting to be parsed.',
    );
    expect((await run(neighbour, newFine(10))).status).toBe(200);
    const states = (await Promise.all(asked)).map(({ status }) => status);
    expect(states.filter((status) => status === 429).length).toBeGreaterThan(2);
    expect(states.filter((status) => status !== 429).length).toBeGreaterThan(6);
  });

  it('are bounded in number per project', async () => {
    const asked = Array.from({ length: 1_500 }, () => parser().parse(flood, newText(100)));
    const ends = (await Promise.allSettled(asked)).map(({ status }) => status);
    expect(ends.filter((end) => end === 'fulfilled')).toHaveLength(1_024);
    // All of it was given back.
    const again = Array.from({ length: 1_024 }, () => parser().parse(flood, newText(100)));
    await Promise.all(again);
  });

  it('are parsed once when many requests send the same', async () => {
    const text = newFine(100);
    const statements = await Promise.all(
      Array.from({ length: 3_000 }, () => parser().parse(neighbour, text)),
    );
    expect(new Set(statements).size).toBe(1);
  });

  it('are released after a text that crashes the parser', async () => {
    for (let n = 0; n < 3; n++) {
      const deep = `select ${++serial}${'+1'.repeat(100_000)}`;
      const [broken, ...others] = await Promise.all([
        run(flood, deep),
        ...Array.from({ length: 5 }, () => run(neighbour, newFine(70_000))),
      ]);
      expect(broken.body.error.code).toBe('statement_not_allowed');
      for (const { status } of others) expect(status).toBe(200);
    }
  });
});

describe('parsed texts in the cache', () => {
  it('stay there however many new texts another project sends', async () => {
    const hot = newFine(50);
    const known = await parser().parse(neighbour, hot);
    for (let sent = 0; sent < 6_000; sent += 500) {
      await Promise.all(Array.from({ length: 500 }, () => parser().parse(flood, newFine(10))));
    }
    expect(parser().recall(neighbour.id, hot)).toBe(known);
  });

  it('stay there beside texts that fill the cache', async () => {
    const hot = newFine(50);
    const known = await parser().parse(neighbour, hot);
    for (let sent = 0; sent < 5_500; sent += 500) {
      const texts = Array.from({ length: 500 }, () => `select ${++serial} -- ${'x'.repeat(8_000)}`);
      await Promise.all(texts.map((text) => parser().parse(flood, text)));
    }
    expect(parser().recall(neighbour.id, hot)).toBe(known);
  });
});
