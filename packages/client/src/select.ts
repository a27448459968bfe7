// The type of the rows that select() gives: its columns, aliases and embedded rows, read from the text by the compiler.
import type { AnyRow } from './database.ts';

/** A table as `rowhouse types` writes it: `Embeds` has a table, `table | null` or `table[]` for each that can be embedded. */
type Entry = { Row: object; Embeds?: object };

/** The rows of `select(...columns)`. What the types do not know makes it {@link AnyRow}: a cast of your own says more. */
export type Selected<Row, Embeds, Columns extends readonly string[]> = string extends Columns[number]
  ? AnyRow
  : Known<Items<Row, Embeds, Join<Columns>>>;

/** In place of an object: the types do not say. */
type Unknown = '?';
type Known<Found> = [Found] extends [Unknown] ? AnyRow : { [Name in keyof Found]: Found[Name] };
type Both<One, Two> = [One] extends [Unknown] ? Unknown : [Two] extends [Unknown] ? Unknown : One & Two;

type Join<Columns extends readonly string[]> = Columns extends readonly [
  infer First extends string,
  ...infer Rest extends readonly string[],
]
  ? `${First},${Join<Rest>}`
  : '';

type Trim<Text extends string> = Text extends `${' ' | '\n' | ','}${infer Rest}`
  ? Trim<Rest>
  : Text extends `${infer Rest}${' ' | '\n'}`
    ? Trim<Rest>
    : Text;

/** A list such as `id,name,species(latin)`. */
type Items<Row, Embeds, Text extends string> =
  Trim<Text> extends infer List extends string
    ? List extends ''
      ? unknown
      : List extends `${infer Head},${infer Rest}`
        ? Head extends `${string}(${string}`
          ? Embedded<Row, Embeds, List>
          : Both<Column<Row, Trim<Head>>, Items<Row, Embeds, Rest>>
        : List extends `${string}(${string}`
          ? Embedded<Row, Embeds, List>
          : Column<Row, List>
    : never;

type Column<Row, Text extends string> = Text extends '*'
  ? Row
  : Text extends `${infer Name}::${string}`
    ? Record<NameOf<Name>, unknown>
    : Text extends `${string}->${string}`
      ? Unknown
      : Text extends `${infer Alias}:${infer Name}`
        ? Name extends keyof Row
          ? Record<Alias, Row[Name]>
          : Unknown
        : Text extends keyof Row
          ? Pick<Row, Text>
          : Unknown;
type NameOf<Text extends string> = Text extends `${infer Alias}:${string}` ? Alias : Text;

/** `species(latin)`, and what comes after it. */
type Embedded<Row, Embeds, List extends string> = List extends `${infer Name}(${infer Rest}`
  ? Closed<Rest> extends [infer Inner extends string, infer After extends string]
    ? Both<One<Embeds, Name, Inner>, Items<Row, Embeds, After>>
    : Unknown
  : Unknown;

/** The text before the parenthesis that closes, and the text after it. */
type Closed<
  Rest extends string,
  Seen extends string = '',
  Open extends unknown[] = [],
> = Rest extends `${infer Before})${infer After}`
  ? [...Open, ...Opened<Before>] extends [unknown, ...infer Less]
    ? Closed<After, `${Seen}${Before})`, Less>
    : [`${Seen}${Before}`, After]
  : never;
type Opened<Text extends string> = Text extends `${string}(${infer Rest}` ? [0, ...Opened<Rest>] : [];

type One<Embeds, Name extends string, Inner extends string> = Name extends `...${infer Spread}`
  ? Table<Spread> extends keyof Embeds
    ? Of<Embeds[Table<Spread>], Inner> extends infer Found
      ? NonNullable<Found>
      : never
    : Unknown
  : Table<Name> extends keyof Embeds
    ? Inner extends ''
      ? unknown
      : Record<Key<Name>, Inside<Embeds[Table<Name>], Name, Inner>>
    : Unknown;

/** `alias:table!hint!inner` */
type Table<Name extends string> = Name extends `${string}:${infer Rest}`
  ? Table<Rest>
  : Name extends `${infer Rest}!${string}`
    ? Rest
    : Name;
type Key<Name extends string> = Name extends `${infer Alias}:${string}` ? Alias : Table<Name>;

type Inside<Embed, Name extends string, Inner extends string> = [Embed] extends [readonly (infer Many)[]]
  ? Of<Many, Inner>[]
  :
      | Of<NonNullable<Embed>, Inner>
      | (null extends Embed ? (Name extends `${string}!inner` ? never : null) : never);
type Of<Embed, Inner extends string> =
  NonNullable<Embed> extends infer Found extends Entry
    ? Known<Items<Found['Row'], Found extends { Embeds: infer Embeds } ? Embeds : unknown, Inner>>
    : AnyRow;
