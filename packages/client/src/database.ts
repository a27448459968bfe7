// Types for the tables of a project, as `rowhouse types` generates them, and the lookup of table names in them.

/** A row of unknown type. */
export type AnyRow = Record<string, unknown>;

type Names<Schema> =
  | (Schema extends { Tables: infer Tables } ? keyof Tables & string : never)
  | (Schema extends { Views: infer Views } ? keyof Views & string : never);

/** `teas` is a table of schema public, `shop.teas` one of schema shop. */
export type TableName<Database> = unknown extends Database
  ? string
  : {
      [Schema in keyof Database & string]:
        | (Schema extends 'public' ? Names<Database[Schema]> : never)
        | `${Schema}.${Names<Database[Schema]>}`;
    }[keyof Database & string];

type Entry<Schema, Name> = Schema extends { Tables: infer Tables }
  ? Name extends keyof Tables
    ? Tables[Name]
    : Schema extends { Views: infer Views }
      ? Name extends keyof Views
        ? Views[Name]
        : never
      : never
  : never;

type Find<Database, Name> = Name extends `${infer Schema}.${infer Rest}`
  ? Schema extends keyof Database
    ? Entry<Database[Schema], Rest>
    : InPublic<Database, Name>
  : InPublic<Database, Name>;
type InPublic<Database, Name> = Database extends { public: infer Public } ? Entry<Public, Name> : never;

/** A row of a table or view. */
export type RowOf<Database, Name> = unknown extends Database ? AnyRow : Part<Find<Database, Name>, 'Row'>;
/** A row to insert; never for a view. */
export type InsertOf<Database, Name> = unknown extends Database
  ? AnyRow
  : Part<Find<Database, Name>, 'Insert'>;
/** The changes that an update can make to a row. */
export type UpdateOf<Database, Name> = unknown extends Database
  ? AnyRow
  : Part<Find<Database, Name>, 'Update'>;
/** The tables that can be embedded in its rows. */
export type EmbedsOf<Database, Name> = unknown extends Database
  ? unknown
  : Part<Find<Database, Name>, 'Embeds'>;
type Part<Entry, Key extends string> = Entry extends Record<Key, infer Found> ? Found : never;
