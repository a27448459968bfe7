// Finds the object that a statement is about in the statement itself. pg_dump names it in a comment, but edited dumps and those of
// Supabase's CLI have no comments. The subject decides what is reported and what is left out, never a right.
import { ownText } from './own-text.ts';
import type { Heading } from './script.ts';

const bare = '[A-Za-z_\\u0080-\\uffff][\\w$\\u0080-\\uffff]{0,127}';
const part = `(?:"(?:[^"]|""){1,128}"|${bare})`;
/** A name, and possibly its schema before it. */
const qualified = `(${part})(?:\\s{0,9}\\.\\s{0,9}(${part}))?`;
const space = '\\s{1,99}';
const unless = `(?:if${space}not${space}exists${space})?`;
const orReplace = `(?:or${space}replace${space})?`;

/** `(start)`: where the rest is read. All begin at the first word, and none is read further than needed. */
const pattern = (text: string) => new RegExp(`^${text.replaceAll(' ', space)}`, 'i');
const name = (text: string) => pattern(`${text} ${qualified}`);

const rows = pattern(`(?:insert into|copy) ${qualified}`);
/** With what can only stand behind the name: whatever begins with it has rows of the same table. */
const rowsHead = pattern(`insert into ${qualified}(?:\\s{0,9}\\(|\\s{1,9}[a-z])`);
const table = pattern(
  `create (?:(?:global |local )?(?:temp|temporary) |unlogged |foreign )?table ${unless}${qualified}`,
);
const view = pattern(`create ${orReplace}(?:recursive )?(view|materialized view) ${unless}${qualified}`);
const routine = pattern(`create ${orReplace}(function|procedure|aggregate) ${qualified}`);
const simple = pattern(
  `create (sequence|type|domain|collation|statistics|server|conversion) ${unless}${qualified}`,
);
const index = pattern(
  `create (?:unique )?index (?:concurrently )?${unless}(?:${part} )?on (?:only )?${qualified}`,
);
const schema = pattern(`create schema ${unless}(${part})`);
const extension = pattern(`create extension ${unless}(${part})`);
const global = pattern(
  `(?:create|alter|drop) (event trigger|publication|subscription|role|user|group|database|tablespace|foreign data wrapper|language) (?:if exists )?(${part})`,
);
const trigger = pattern(`create ${orReplace}(?:constraint )?(trigger|rule) (${part})`);
const policy = pattern(`(?:create|alter|drop) policy (?:if exists )?(${part}) on ${qualified}`);
const altered = pattern(
  `(?:alter|drop) (table|foreign table|view|materialized view|sequence|type|domain|function|procedure|aggregate|index|schema|collation|statistics) (?:if exists )?(?:only )?${qualified}`,
);
const commented = pattern(
  `comment on (table|view|materialized view|sequence|type|domain|function|procedure|aggregate|index|column|foreign table) ${qualified}`,
);
const commentedGlobal = pattern(
  `comment on (schema|extension|event trigger|publication|role|database) (${part})`,
);
const onTable = new RegExp(`\\bon${space}(?:only${space})?${qualified}`, 'gi');
const granted = pattern(
  `(?:grant|revoke) [\\s\\S]{1,400}? on (?:(table|sequence|function|procedure|routine|schema|type|domain|foreign server|foreign data wrapper|language) )?(?:all (?:tables|sequences|functions|routines|procedures) in schema )?${qualified}`,
);
const defaults = pattern(`alter default privileges[\\s\\S]{0,200}? in schema (${part})`);
const setval = new RegExp(
  `^select${space}(?:pg_catalog\\s{0,9}\\.\\s{0,9})?setval\\s{0,9}\\(\\s{0,9}'([^']{1,300})'`,
  'i',
);
const databaseSetting = pattern(`alter database ${part} (?:set|reset)\\b`);
const refreshed = name('refresh materialized view');

/** null: it is about nothing with a name, or its form is not known. */
export function subjectOf(statement: string): Heading | null {
  const found = find(statement.slice(0, maxChars));
  return found && { ...found, isDerived: true };
}

/**
 * Names the subject of each statement of a script. It remembers the last one, because a script can contain millions of INSERTs
 * into one table.
 */
export class Subjects {
  private head: string | null = null;
  private found: Heading | null = null;

  of(statement: string): Heading | null {
    if (this.head !== null && statement.startsWith(this.head)) return this.found;
    const found = subjectOf(statement);
    const head = found?.kind === 'TABLE DATA' ? rowsHead.exec(statement.slice(0, maxChars))?.[0] : undefined;
    if (head === undefined) return found;
    this.head = ownText(head);
    this.found = found;
    return found;
  }
}

function find(text: string): Heading | null {
  const first = /^\w{1,10}/.exec(text)?.[0].toLowerCase();
  switch (first) {
    case 'insert':
    case 'copy':
      return ofSchema('TABLE DATA', rows.exec(text), 1);
    case 'create':
      return ofCreate(text);
    case 'alter':
    case 'drop':
      return ofAlter(text);
    case 'comment':
      return ofComment(text);
    case 'grant':
    case 'revoke':
      return ofGrant(text);
    case 'select':
      return ofSetval(setval.exec(text)?.[1]);
    case 'refresh':
      return ofSchema('MATERIALIZED VIEW DATA', refreshed.exec(text), 1);
    default:
      return null;
  }
}

const maxChars = 4_000;

function ofCreate(text: string): Heading | null {
  const made = view.exec(text) ?? routine.exec(text) ?? simple.exec(text);
  if (made) return ofSchema(kindOf(made), made, 2);
  const found = table.exec(text);
  if (found) return ofSchema('TABLE', found, 1);
  const indexed = index.exec(text);
  if (indexed) return ofSchema('INDEX', indexed, 1);
  const named = schema.exec(text);
  if (named) return { kind: 'SCHEMA', schema: null, name: unquote(named[1]), owner: null };
  const extended = extension.exec(text);
  if (extended) return { kind: 'EXTENSION', schema: null, name: unquote(extended[1]), owner: null };
  const wide = global.exec(text);
  if (wide) return { kind: kindOf(wide), schema: null, name: unquote(wide[2]), owner: null };
  const guarded = policy.exec(text);
  if (guarded) return ofTable('POLICY', guarded[1], guarded, 2);
  const triggered = trigger.exec(text);
  if (!triggered) return null;
  // The last ON before the function: UPDATE OF names columns, and a rule has ON before its event.
  onTable.lastIndex = triggered[0].length;
  const isRule = /^rule$/i.test(triggered[1] ?? '');
  const ruled = isRule ? new RegExp(`\\bto${space}${qualified}`, 'i').exec(text) : onTable.exec(text);
  return ofTable(isRule ? 'RULE' : 'TRIGGER', triggered[2], ruled, 1);
}

function ofAlter(text: string): Heading | null {
  const inSchema = defaults.exec(text);
  if (inSchema)
    return { kind: 'DEFAULT ACL', schema: unquote(inSchema[1]), name: 'DEFAULT PRIVILEGES', owner: null };
  const guarded = policy.exec(text);
  if (guarded) return ofTable('POLICY', guarded[1], guarded, 2);
  const wide = global.exec(text);
  if (wide) {
    const kind = kindOf(wide);
    const isSetting = databaseSetting.test(text);
    const own = kind === 'DATABASE' ? (isSetting ? 'DATABASE PROPERTIES' : 'DATABASE CHANGE') : kind;
    return { kind: own, schema: null, name: unquote(wide[2]), owner: null };
  }
  const found = altered.exec(text);
  if (!found) return null;
  const kind = kindOf(found);
  if (kind === 'SCHEMA') return { kind, schema: null, name: unquote(found[2]), owner: null };
  return ofSchema(kind, found, 2);
}

function ofComment(text: string): Heading | null {
  const wide = commentedGlobal.exec(text);
  if (wide) {
    const kind = kindOf(wide);
    return { kind: 'COMMENT', schema: null, name: `${kind} ${unquote(wide[2])}`, owner: null };
  }
  const found = commented.exec(text);
  if (found) return ofSchema('COMMENT', found, 2);
  onTable.lastIndex = 'comment on '.length;
  return ofSchema('COMMENT', onTable.exec(text), 1);
}

function ofGrant(text: string): Heading | null {
  const found = granted.exec(text);
  if (!found) return null;
  const isSchema = /^schema$/i.test(found[1] ?? '') || / in\s+schema\s+\S+$/i.test(found[0]);
  if (isSchema) return { kind: 'ACL', schema: null, name: `SCHEMA ${unquote(found[2])}`, owner: null };
  return ofSchema('ACL', found, 2);
}

function ofSetval(sequence: string | undefined): Heading | null {
  const found = sequence === undefined ? null : new RegExp(`^${qualified}$`).exec(sequence);
  return ofSchema('SEQUENCE SET', found, 1);
}

/** As the statement names it: TABLE, MATERIALIZED VIEW. */
function kindOf(found: RegExpExecArray): string {
  return (found[1] ?? '').toUpperCase().replace(/\s+/g, ' ');
}

/** `at`: the group of the first part. Without a schema, the search path decides. */
function ofSchema(kind: string, found: RegExpExecArray | null, at: number): Heading | null {
  if (!found) return null;
  const [one, two] = [found[at], found[at + 1]];
  return two === undefined
    ? { kind, schema: null, name: unquote(one), owner: null }
    : { kind, schema: unquote(one), name: unquote(two), owner: null };
}

/** pg_dump names what belongs to a table with the table before it. */
function ofTable(
  kind: string,
  own: string | undefined,
  found: RegExpExecArray | null,
  at: number,
): Heading | null {
  const on = ofSchema(kind, found, at);
  return on && { ...on, name: `${on.name} ${unquote(own)}` };
}

/** As PostgreSQL folds names. */
function unquote(text: string | undefined): string {
  if (text === undefined) return '';
  if (text.startsWith('"')) return ownText(text.slice(1, -1).replaceAll('""', '"'));
  return ownText(text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()));
}
