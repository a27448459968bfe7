// A request about the rows of one table, with everything that reading and writing need: one value instead of many
// arguments.

import type { Reader } from '../query/exchange/reader.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import type { MaySee, Table } from './catalog/catalog.ts';

export type TableCall = Readonly<{
  project: ProjectLogin;
  /** The table's name as in the path. */
  name: string;
  rawQuery: string;
  reader: Reader;
  access: TableAccess;
}>;

/** What the caller may do. */
export type TableAccess = Readonly<{
  timeoutMs: number;
  /** Throws if the caller may not use these tables. */
  check: (tables: readonly Table[]) => void;
  maySee: MaySee;
  /** Throws if the caller may write but not read: then existing rows must not be returned. */
  checkReading: () => void;
}>;
