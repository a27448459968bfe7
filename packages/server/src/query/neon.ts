// The response format of Neon's SQL over HTTP, for its driver and everything built on it: fields as PostgreSQL describes
// them, and values as PostgreSQL's text, which the driver parses by type as `pg` does.
import type { Form, Result } from './exchange/answer-writer.ts';
import { toPostgresInterval, toPostgresIntervals } from './json/intervals.ts';
import { type Layout, type ResultShape, writerOf } from './json/layout.ts';
import { type Column, planRows, type RowPlan } from './json/row-writer.ts';
import { type Kind, string, type ValueType } from './json/value-kinds.ts';

/** `rawText`: all values as text; otherwise numbers, booleans and JSON as such. `arrays`: rows as arrays, not objects. */
export type NeonMode = Readonly<{ rawText: boolean; arrays: boolean }>;

/** The JSON around a statement's result: for a single statement, and for the first or a later one of a batch. */
export function neonForms({ rawText, arrays }: NeonMode): { withSession: Form; first: Form; next: Form } {
  return (rawText ? textForms : jsonForms)[arrays ? 'arrays' : 'objects'];
}

const [textForms, jsonForms] = [true, false].map((rawText) => ({
  arrays: formsOf({ rawText, arrays: true }),
  objects: formsOf({ rawText, arrays: false }),
})) as [Record<'arrays' | 'objects', Forms>, Record<'arrays' | 'objects', Forms>];
type Forms = ReturnType<typeof formsOf>;

function formsOf(mode: NeonMode) {
  const layout = layoutOf(mode);
  const end = (exchange: Result) => neonEnd(exchange, mode.arrays);
  const form = (opening: string): Form => ({
    opening: Buffer.from(opening),
    hasHead: true,
    hasRows: true,
    hidden: 0,
    onLastRow: null,
    close: end,
    layout,
  });
  return { withSession: form('{'), first: form('{'), next: form(',{') };
}

function layoutOf({ rawText, arrays }: NeonMode): Layout {
  const layout: Layout = {
    shapeOf: (columns, types) => {
      const kinds = columns.map(({ oid }, index) => ({
        kind: rawText ? textKind(oid) : jsonKind(oid, (types[index] as ValueType).kind),
      }));
      return shape(columns.map(fieldOf), planRows(columns, kinds, arrays));
    },
    get empty() {
      return emptyShape;
    },
    needsTypes: !rawText,
  };
  const shape = (fields: object[], plan: RowPlan): ResultShape => ({
    layout,
    head: Buffer.from(`"fields":${JSON.stringify(fields)},"rows":[`),
    columns: '',
    ...writerOf(plan),
  });
  const emptyShape = shape([], planRows([], []));
  return layout;
}

function fieldOf({ oid, given }: Column): object {
  return {
    name: given.name,
    tableID: given.table,
    columnID: given.attribute,
    dataTypeID: oid,
    dataTypeSize: given.size,
    dataTypeModifier: given.modifier,
    format: 'text',
  };
}

const [intervalOid, intervalsOid] = [1186, 1187];
const interval: Kind = { is: 'rewritten', rewrite: toPostgresInterval };
const intervals: Kind = { is: 'rewritten', rewrite: toPostgresIntervals, isList: true };

function textKind(oid: number): Kind {
  if (oid === intervalOid) return interval;
  return oid === intervalsOid ? intervals : string;
}

/** Only values that JSON carries without loss even where numbers are doubles; all others are text. */
function jsonKind(oid: number, kind: Kind): Kind {
  if (oid === intervalOid) return interval;
  if (kind.is === 'array')
    return { ...kind, element: oid === intervalsOid ? interval : jsonKind(0, kind.element) };
  return kind.is === 'number' || kind.is === 'boolean' || kind.is === 'json' ? kind : string;
}

/** SELECT 5, INSERT 0 5, CREATE TABLE: the first word and the last number of the tag, as `pg` reads it. */
function neonEnd({ tag }: Result, arrays: boolean): string {
  const [, command = '', count = 'null'] = /^(\w*)(?:.* (\d+))?/.exec(tag ?? '') ?? [];
  return `],"command":"${command}","rowCount":${count},"rowAsArray":${arrays}}`;
}
