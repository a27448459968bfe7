// The rows of schema auth that a script has as INSERTs. Only their places are kept: there can be one for each user.
import { BrokenDump } from '../read/broken-dump.ts';
import type { Count } from '../read/counted.ts';
import type { DumpFile } from '../read/dump-file.ts';
import type { CopyRow } from './copy-text.ts';
import { type InsertHead, readAuthInsert, readInsertRows } from './insert-text.ts';
import type { AuthRows } from './users.ts';

type Places = { columns: readonly string[]; from: number[]; to: number[] };

export class InsertedRows {
  private readonly file: DumpFile;
  private readonly count: Count;
  /** The columns that CREATE TABLE lists, for INSERTs without a list of columns. */
  private readonly columns = new Map<string, readonly string[]>();
  private readonly places = new Map<string, Places>();

  constructor(file: DumpFile, count: Count) {
    this.file = file;
    this.count = count;
  }

  noteTable(found: { table: string; columns: string[] } | null): void {
    if (found && this.columns.size < maxTables) this.columns.set(found.table, found.columns);
  }

  note(head: InsertHead | null, from: number, to: number): void {
    if (!head || (!this.places.has(head.table) && this.places.size >= maxTables)) return;
    const columns = head.columns ?? this.columns.get(head.table) ?? [];
    const places = this.places.get(head.table) ?? { columns, from: [], to: [] };
    places.from.push(from);
    places.to.push(to);
    this.places.set(head.table, places);
  }

  tables(): AuthRows[] {
    return [...this.places].map(([table, places]) => ({
      table,
      columns: places.columns,
      rows: () => this.read(table, places),
    }));
  }

  private async *read(table: string, { from, to }: Places): AsyncGenerator<CopyRow | null> {
    for (const [index, start] of from.entries()) {
      const bytes = await this.file.read(start, (to[index] ?? start) - start);
      this.count(bytes.length);
      const text = bytes.toString('utf8');
      const head = readAuthInsert(text);
      if (!head || head.valuesAt < 0) {
        yield null;
        continue;
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
}

const maxTables = 100;
