// Bodies of rows converted for COPY, judged by PostgreSQL itself: what it reads from them must be what it reads from the
// same JSON, and the same CSV, by its own means.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCsv } from '../../src/tables/import/csv.ts';
import { openJsonLines } from '../../src/tables/import/json-lines.ts';
import { address } from '../support/helpers.ts';

const client = new pg.Client(address() as pg.ClientConfig);
beforeAll(() => client.connect());
afterAll(() => client.end());

/** COPY by hand, on the driver's own connection. */
async function copy(command: string, pieces: AsyncIterable<Buffer>): Promise<void> {
  const data: Buffer[] = [];
  for await (const piece of pieces) data.push(Buffer.from(piece));
  await new Promise<void>((resolve, reject) => {
    let failure: Error | null = null;
    const exchange = {
      submit: (connection: { query(text: string): void }) => connection.query(command),
      handleCopyInResponse: (connection: { sendCopyFromChunk(chunk: Buffer): void; endCopyFrom(): void }) => {
        for (const piece of data) connection.sendCopyFromChunk(piece);
        connection.endCopyFrom();
      },
      handleCommandComplete: () => {},
      handleError: (error: Error) => {
        failure = error;
      },
      handleReadyForQuery: () => (failure ? reject(failure) : resolve()),
    };
    client.query(exchange as unknown as pg.Submittable);
  });
}

async function* inPieces(text: string): AsyncGenerator<Buffer, void> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + Math.floor(Math.random() * 5000);
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

const pick = <T>(...of: T[]): T => of[Math.floor(Math.random() * of.length)] as T;
const many = <T>(make: () => T, most: number): T[] =>
  Array.from({ length: Math.floor(Math.random() * (most + 1)) }, make);
const odd = [
  '\\',
  '"',
  '\t',
  '\n',
  '\r',
  '\b',
  '\f',
  '\v',
  ',',
  '{',
  '}',
  'N',
  'NULL',
  '\\N',
  '\\.',
  "'",
  ' ',
  'é',
  '😀',
  '\u2028',
  'x',
  '0',
  '',
];
const text = () => many(() => pick(...odd), 12).join('');
const digits = (most: number) => many(() => pick(...'0123456789'), most).join('');
/** As JSON text: a value would have lost its digits already. */
const number = () => {
  const whole = `${pick('', '-')}${pick('0', `${pick(...'123456789')}${digits(25)}`)}`;
  const written = `${whole}${pick('', `.${digits(25)}1`)}`;
  // JavaScript writes -0 as 0, which is the same to all but the json type.
  return written === '-0' ? '0' : written;
};
const integer = () => `${pick('', '-')}${pick('0', `${pick(...'12345678')}${digits(17)}`)}`;
const json = (depth: number): string =>
  depth === 0
    ? pick('null', 'true', number(), JSON.stringify(text()))
    : pick(
        () => `[${many(() => json(depth - 1), 3)}]`,
        () => `{${many(() => `${JSON.stringify(text())}:${json(depth - 1)}`, 3)}}`,
        () => json(0),
      )();
const array = (of: () => string) => `[${many(() => pick('null', of(), of()), 4)}]`;
/** An array of two dimensions with no element missing. */
const grid = (of: () => string) => {
  const width = 1 + Math.floor(Math.random() * 3);
  const row = () => `[${Array.from({ length: width }, of)}]`;
  return `[${[row(), ...many(row, 2)]}]`;
};

const kinds: Record<string, { type: string; of: () => string }> = {
  plain: { type: 'text', of: () => JSON.stringify(text()) },
  amount: { type: 'numeric', of: number },
  count: { type: 'int8', of: integer },
  ratio: { type: 'float8', of: () => JSON.stringify(Math.random() * 10 ** pick(-200, -5, 0, 5, 200)) },
  flag: { type: 'boolean', of: () => pick('true', 'false') },
  doc: { type: 'jsonb', of: () => json(3) },
  // Objects with a key twice, or with numbers for keys, are not kept to the letter: JavaScript has read them.
  raw: { type: 'json', of: () => `{"a":${array(() => json(0))}}` },
  words: { type: 'text[]', of: () => array(() => JSON.stringify(text())) },
  amounts: { type: 'numeric[]', of: () => pick(array(number), grid(number)) },
  docs: {
    type: 'jsonb[]',
    of: () => array(() => pick(number(), `{"k":${json(1)}}`, JSON.stringify(text()))),
  },
  'odd "name", of\ttext': { type: 'text', of: () => JSON.stringify(text()) },
};

describe('JSON lines', () => {
  it('are what PostgreSQL itself reads from the same JSON', async () => {
    const names = Object.keys(kinds);
    const columns = names.map((name) => `${client.escapeIdentifier(name)} ${kinds[name]?.type}`);
    await client.query(`create temp table kept (row_number int, ${columns})`);
    const lines = Array.from({ length: 3000 }, (_, index) => {
      const entries = names.map(
        (name) => `${JSON.stringify(name)}: ${pick('null', ...Array(5).fill(kinds[name]?.of())) as string}`,
      );
      return `{"row_number": ${index}, ${entries}}`;
    });
    const opened = await openJsonLines(inPieces(`${lines.join('\n')}\n`));
    expect(opened.names).toEqual(['row_number', ...names]);
    const wanted = opened.names.map((name) => ({
      name,
      isJson: /^json/.test(kinds[name]?.type ?? ''),
      isArray: kinds[name]?.type.endsWith('[]') ?? false,
    }));
    const list = opened.names.map((name) => client.escapeIdentifier(name));
    await copy(`copy kept (${list}) from stdin`, opened.rows(wanted));
    const { rows } = await client.query(
      `with expected as (select * from json_populate_recordset(null::kept, $1))
       select kept.row_number, kept::text as got, expected::text as expected
       from kept full join expected using (row_number)
       where kept::text is distinct from expected::text limit 3`,
      [`[${lines}]`],
    );
    expect(rows).toEqual([]);
    expect((await client.query('select count(*)::int as n from kept')).rows).toEqual([{ n: 3000 }]);
  });
});

describe('CSV', () => {
  it('goes to COPY as it came, without its header', async () => {
    await client.query('create temp table sheet (id int, "a ""b"", c" text, note text)');
    const cell = () => {
      const value = text();
      return /^$|[",\n\r\\]/.test(value) || value !== value.trim()
        ? `"${value.replaceAll('"', '""')}"`
        : value;
    };
    const values = Array.from({ length: 500 }, (_, index) => [String(index), cell(), pick('', cell())]);
    const body = `\uFEFFid,note,"a ""b"", c"\r\n${values.map((row) => row.join(',')).join('\r\n')}\r\n`;
    const { names, rest } = await openCsv(inPieces(body));
    expect(names).toEqual(['id', 'note', 'a "b", c']);
    const list = names.map((name) => client.escapeIdentifier(name));
    await copy(`copy sheet (${list}) from stdin (format csv)`, rest);
    const { rows } = await client.query({
      text: 'select id::text, note, "a ""b"", c" from sheet order by sheet.id',
      rowMode: 'array',
    });
    const bare = (written: string) =>
      written === '' ? null : written.replace(/^"(.*)"$/s, (_all, inner) => inner.replaceAll('""', '"'));
    expect(rows).toEqual(values.map((row) => row.map(bare)));
  });
});
