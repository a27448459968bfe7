// The rows of schema auth that a script has as INSERTs. Only where those of a table begin and end is kept: there can be one for
// each user. They are found again by reading the script between the two.
import { BrokenDump } from '../read/broken-dump.ts';
import type { Count } from '../read/counted.ts';
import type { DumpFile } from '../read/dump-file.ts';
import { readScript } from '../read/script.ts';
import type { CopyRow } from './copy-text.ts';
import { type InsertHead, readAuthInsert, readInsertRows } from './insert-text.ts';
import { type AuthRows, isOfUsers } from './users.ts';

type Place = { columns: readonly string[]; from: number; to: number };

export class InsertedRows {
  private readonly file: DumpFile;
  private readonly count: Count;
  /** The columns that CREATE TABLE lists, for INSERTs without a list of columns. */
  private readonly columns = new Map<string, readonly string[]>();
  private readonly places = new Map<string, Place>();

  constructor(file: DumpFile, count: Count) {
    this.file = file;
    this.count = count;
  }

  noteTable(found: { table: string; columns: string[] } | null): void {
    if (found && isOfUsers(found.table)) this.columns.set(found.table, found.columns);
  }

  note(head: InsertHead | null, from: number, to: number): void {
    if (!head || !isOfUsers(head.table)) return;
    const place = this.places.get(head.table);
    if (place) {
      place.to = to;
      return;
    }
    const columns = head.columns ?? this.columns.get(head.table) ?? [];
    this.places.set(head.table, { columns, from, to });
  }

  tables(): AuthRows[] {
    return [...this.places].map(([table, place]) => ({
      table,
      columns: place.columns,
      rows: () => this.read(table, place),
    }));
  }

  private async *read(table: string, { from, to }: Place): AsyncGenerator<CopyRow | null> {
    for await (const item of readScript(this.file)) {
      if (item.from < from) continue;
      const head = readAuthInsert(item.text);
      if (head?.table === table) {
        this.count(item.at - item.from);
        yield* this.rowsOf(table, head, item.text);
      }
      if (item.at >= to) return;
    }
  }

  private *rowsOf(table: string, head: InsertHead, text: string): Generator<CopyRow | null> {
    if (head.valuesAt < 0) {
      yield null;
      return;
    }
    const columns = head.columns ?? this.columns.get(table);
    if (!columns)
      throw new BrokenDump(
        `INSERT INTO auth.${table} names no columns, and its CREATE TABLE is not in the dump`,
        'Dump with --column-inserts.',
      );
    yield* readInsertRows(text, head.valuesAt, columns);
  }
}
