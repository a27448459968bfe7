// Answers that consist of rows alone: CSV and JSON lines. They are written by the same code as JSON, so they stream with
// backpressure and in constant memory.
import type { Form } from './exchange/answer-writer.ts';
import { type Layout, type ResultShape, writerOf } from './json/layout.ts';
import { type Column, planRows, type RowPlan, type RowWriter } from './json/row-writer.ts';
import type { Kind } from './json/value-kinds.ts';

export type RowFormat = 'csv' | 'json-lines';

const lineFeed = 10;
const backslashDot = 0x5c2e;

/** `hidden`: as in a Form. */
export function rowsOnly(format: RowFormat, hidden = 0): Form {
  return {
    opening: Buffer.alloc(0),
    hasHead: true,
    hasRows: true,
    separator: lineFeed,
    hidden,
    onLastRow: null,
    // The last line ends like the others.
    close: ({ rowCount }) => (rowCount > 0 ? '\n' : ''),
    layout: layouts[format],
  };
}

function layoutOf(
  shapeOf: (...given: Parameters<Layout['shapeOf']>) => Omit<ResultShape, 'layout'>,
  needsTypes: boolean,
): Layout {
  const layout: Layout = {
    shapeOf: (columns, types) => ({ layout, ...shapeOf(columns, types) }),
    get empty() {
      return empty;
    },
    needsTypes,
  };
  const empty: ResultShape = { layout, ...shapeOf([], []) };
  return layout;
}

const nothing = Buffer.alloc(0);
const layouts: Record<RowFormat, Layout> = {
  'json-lines': layoutOf((columns, types) => {
    const kinds = types.map(({ kind }) => ({ kind: onOneLine(kind) }));
    return { head: nothing, columns: '', ...writerOf(planRows(columns, kinds)) };
  }, true),
  // Values are PostgreSQL's text, as COPY writes them, so no type has to be looked up.
  csv: layoutOf((columns) => ({ head: headerOf(columns), columns: '', ...csvWriter(columns) }), false),
};

/** The type json keeps the line breaks that it was given, also inside arrays and composites. */
function onOneLine(kind: Kind): Kind {
  switch (kind.is) {
    case 'json':
      return { is: 'json_line' };
    case 'array':
      return { ...kind, element: onOneLine(kind.element) };
    case 'composite':
      return {
        ...kind,
        fields: kind.fields.map((field) => ({ key: field.key, kind: onOneLine(field.kind) })),
      };
    default:
      return kind;
  }
}

/** Without columns there is no header: the statement returns no rows. */
function headerOf(columns: readonly Column[]): Buffer {
  if (columns.length === 0) return nothing;
  return Buffer.from(`${columns.map(({ name }) => csvName(name)).join(',')}\n`);
}

function csvName(name: string): string {
  return /[",\r\n]/.test(name) || name === '' ? `"${name.replaceAll('"', '""')}"` : name;
}

function csvWriter(columns: readonly Column[]): Pick<ResultShape, 'write' | 'plan'> {
  const kind: Kind = { is: 'csv' };
  const comma = Buffer.from(',');
  const plan: RowPlan = {
    keys: columns.map((_, index) => (index ? comma : nothing)),
    kinds: columns.map(() => kind),
    open: 0,
    close: 0,
    isBare: true,
  };
  const write: RowWriter = (row, start, _end, json) => {
    // Alone on a line, it would end the input of COPY in PostgreSQL 17 and older. COPY quotes it, too.
    if (
      columns.length === 1 &&
      row.readInt32BE(start + 2) === 2 &&
      row.readUInt16BE(start + 6) === backslashDot
    )
      return json.text('"\\."');
    let at = start + 2;
    for (let index = 0; index < columns.length; index++) {
      if (index) json.byte(44);
      const size = row.readInt32BE(at);
      at += 4;
      if (size < 0) continue;
      json.value(kind, row, at, at + size);
      at += size;
    }
  };
  return { write, plan };
}
