// The origin of a dump, judged by its own content: which role owned most of it, and which service its schemas belong to.
// This decides what is left out. It does not decide about rights: everything runs as the role of the new project.
import { ownText } from '../read/own-text.ts';
import type { Heading } from '../read/script.ts';
import {
  herokuEventTriggers,
  isOfPlatform,
  needlessRows,
  sharedRoles,
  supabaseEventTriggers,
  supabaseRoles,
  supabaseSchemas,
  supabaseTriggers,
} from './platforms.ts';
import type { Weight } from './report.ts';

export type Entry = Heading;

export type Origin = Readonly<{
  /** The role that owned most objects: the new project's role takes its place. */
  mainOwner: string | null;
  owners: ReadonlySet<string>;
  isRowhouse: boolean;
  isSupabase: boolean;
  /** Extensions that the dump expects in the schema `extensions`, which it does not create; null: it expects none there. */
  expects: readonly string[] | null;
}>;

/** Collects what is known about a dump, entry by entry. */
export class OriginSearch {
  private readonly owners = new Map<string, number>();
  private readonly authTables = new Set<string>();
  private readonly expected = new Set<string>();
  private usesExtensions = false;
  private hasExtensions = false;
  private isSupabase = false;
  private isRowhouse = false;

  note({ kind, schema, name, owner }: Entry): void {
    this.hasExtensions ||= kind === 'SCHEMA' && name === 'extensions';
    this.isSupabase ||= isOfSupabaseService(schema ?? (kind === 'SCHEMA' ? name : null), owner);
    if (kind === 'TABLE' && schema === 'auth' && tellingTables.has(name)) this.authTables.add(name);
    if (owner === null || this.owners.size >= maxOwners) return;
    const weight = schema !== null && !ownSchemas.has(schema) ? 1 : 0;
    const before = this.owners.get(owner);
    this.owners.set(before === undefined ? ownText(owner) : owner, (before ?? 0) + weight);
  }

  /** An edited dump has no headings, nor has one of Supabase's CLI: then the statements tell. */
  noteStatement(text: string, subject: Entry | null, hasHeading: boolean): void {
    this.isSupabase ||= isOfSupabase(text, subject);
    const isUsers = subject?.kind === 'TABLE DATA' && subject.schema === 'auth' && subject.name === 'users';
    this.isRowhouse ||= isUsers && text.slice(0, 4_000).includes('email_key');
    if (!/^(?:insert|copy)\b/i.test(text)) this.noteExtensions(text);
    if (!subject || hasHeading) return;
    const owner = /^alter\b/i.test(text) ? newOwner.exec(text.slice(-200)) : null;
    this.note({ ...subject, owner: owner ? (owner[1] ?? owner[2] ?? null) : null });
  }

  private noteExtensions(text: string): void {
    if (!inExtensions.test(text)) return;
    this.usesExtensions = true;
    for (const [extension, functions] of usualExtensions)
      if (functions.test(text)) this.expected.add(extension);
  }

  result(): Origin {
    const { owners, authTables, isSupabase } = this;
    const [main] = [...owners].sort(([, one], [, other]) => other - one);
    const isRowhouse = this.isRowhouse || [...tellingTables].every((name) => authTables.has(name));
    return {
      mainOwner: main?.[0] ?? null,
      owners: new Set(owners.keys()),
      isRowhouse,
      isSupabase: isSupabase && !isRowhouse,
      expects: this.usesExtensions && !isRowhouse && !this.hasExtensions ? [...this.expected] : null,
    };
  }
}

/** A dump can have hundreds of thousands of others. */
const tellingTables: ReadonlySet<string> = new Set(['users', 'passwords', 'attempts']);
const telling = /auth|supabase|storage|realtime|extension|graphql/i;

/** A cheap look first: whether what a statement is about can matter to OriginSearch, or to the users of the dump. */
export function isTelling(text: string, hasHeading: boolean): boolean {
  const end = text.slice(-200);
  return telling.test(text.slice(0, 4_000)) || telling.test(end) || (!hasHeading && newOwner.test(end));
}

const maxOwners = 10_000;
const newOwner = /\bowner\s{1,9}to\s{1,9}(?:"([^"]{1,128})"|(\w{1,63}))\s{0,9};?$/i;

/**
 * What only a database of Supabase has. Any other may have schemas and tables of the same names, an extension that Supabase wrote, and
 * grants to roles with such names: what was taken for Supabase's own would be left out.
 */
function isOfSupabase(text: string, subject: Entry | null): boolean {
  if (!subject) return false;
  const { kind, schema, name } = subject;
  const start = text.slice(0, 4_000);
  if (kind === 'PUBLICATION') return name === 'supabase_realtime';
  if (kind === 'EXTENSION') return name === 'supabase_vault';
  if (schema === 'auth' && name === 'users')
    return start.includes('encrypted_password') && start.includes('raw_user_meta_data');
  if (schema === 'storage' && name === 'objects')
    return start.includes('bucket_id') && start.includes('last_accessed_at');
  if (schema === 'storage' && name === 'buckets')
    return start.includes('file_size_limit') && start.includes('allowed_mime_types');
  return false;
}

/** An object in the schema of one of its services that belongs to the role of one. */
function isOfSupabaseService(schema: string | null, owner: string | null): boolean {
  if (schema === null || owner === null || !supabaseRoles.has(owner)) return false;
  return schema === 'auth' || supabaseSchemas.has(schema);
}

const inExtensions = /\bextensions"?\s{0,9}\.|\bschema\s{1,9}"?extensions\b/i;
/** Supabase has these in the schema `extensions` from the start. */
const usualExtensions: readonly [string, RegExp][] = [
  ['uuid-ossp', /\bextensions"?\s{0,9}\.\s{0,9}"?uuid_/],
  [
    'pgcrypto',
    /\bextensions"?\s{0,9}\.\s{0,9}"?(?:gen_|crypt\b|digest\b|hmac\b|pgp_|encrypt|decrypt|armor|dearmor)/,
  ],
];

/** Every project has them, and they belong to the service. */
export const ownSchemas: ReadonlySet<string> = new Set(['auth', 'rowhouse']);

export const isOwnSchema = (name: string) => ownSchemas.has(name) || name.startsWith('pg_');

export type Judgement =
  | Readonly<{ run: true }>
  /** `reason` null: nothing is lost, and nobody would miss it. */
  | Readonly<{ run: false; reason: string | null; group?: string; weight?: Weight }>;

const run: Judgement = { run: true };
const silently: Judgement = { run: false, reason: null };

export function judge(entry: Entry, origin: Origin): Judgement {
  const { kind, name } = entry;
  if (ofDatabase.test(kind) || /^DATABASE /.test(name)) {
    if (kind === 'DATABASE' && entry.isDerived)
      return { run: false, reason: 'A project is one database.', weight: 'needless' };
    if (kind !== 'DATABASE PROPERTIES' || origin.isRowhouse) return silently;
    return { run: false, reason: 'Settings of a database cannot be changed by a project.' };
  }
  if (kind === 'STATISTICS DATA') return silently;
  const schema = schemaOf(entry);
  if (schema !== null && ownSchemas.has(schema)) {
    if (origin.isRowhouse) return judgeRowhouse(entry);
    return origin.isSupabase && schema === 'auth' ? judgeSupabase(entry, schema) : notOurs(entry, schema);
  }
  if (schema !== null && origin.isSupabase && supabaseSchemas.has(schema))
    return judgeSupabase(entry, schema);
  if (kind === 'EVENT TRIGGER' || /^EVENT TRIGGER /.test(name)) return judgeEventTrigger(name, origin);
  if (isRole.test(kind)) return judgeRole(name, origin);
  if (/^SUBSCRIPTION/.test(kind)) return { run: false, reason: 'Projects cannot have subscriptions.' };
  // A move was running when the dump was made.
  if (/^PUBLICATION/.test(kind) && origin.isRowhouse && /\browhouse_move/.test(name)) return silently;
  if (/^PUBLICATION/.test(kind) && origin.isSupabase && /^supabase_|\bsupabase_realtime/.test(name))
    return { run: false, reason: "It serves Supabase's own services.", weight: 'needless' };
  if (kind === 'PROCEDURAL LANGUAGE' && name === 'plpgsql') return silently;
  if (/^(?:EXTENSION|LANGUAGE|PROCEDURAL LANGUAGE) plpgsql$/.test(name)) return silently;
  if (kind === 'EXTENSION' && name === 'plpgsql') return silently;
  return run;
}

const ofDatabase = /^DATABASE(?: PROPERTIES| CHANGE)?$/;

/** The schema to which an entry belongs. ACL and COMMENT name the schema itself as "SCHEMA x". */
function schemaOf({ kind, schema, name }: Entry): string | null {
  if (schema !== null) return schema;
  if (kind === 'SCHEMA') return name;
  return /^SCHEMA (.*)$/.exec(name)?.[1]?.replace(/^"(.*)"$/, '$1') ?? null;
}

/** Users, passwords and settings are taken; the rest belongs to sessions, or is in every project. */
function judgeRowhouse({ kind, schema, name }: Entry): Judgement {
  if (kind !== 'TABLE DATA' || schema !== 'auth' || rowhouseTables.has(name)) return silently;
  return { run: false, reason: 'In every project, the schema auth belongs to Rowhouse.' };
}

const rowhouseTables = new Set(['users', 'passwords', 'settings', 'sessions', 'codes', 'attempts', 'places']);

function notOurs({ isDerived = false }: Entry, schema: string): Judgement {
  return {
    run: false,
    ...(!isDerived && { group: `schema ${schema}` }),
    reason: `In every project, the schema ${schema} belongs to Rowhouse. Rename the schema, then dump again.`,
  };
}

/**
 * Supabase's services define these objects, which are needless without them. Rows, policies and triggers that a user has put there
 * are lost.
 */
function judgeSupabase(entry: Entry, schema: string): Judgement {
  const { kind, name } = entry;
  if (kind === 'TABLE DATA') {
    if (needlessRows.has(`${schema}.${name}`) || (schema === 'auth' && name === 'users')) return silently;
    return { run: false, reason: `Rows of a table of Supabase's own schema ${schema}.` };
  }
  if (kind === 'POLICY' || (kind === 'TRIGGER' && !supabaseTriggers.has(name.split(' ').at(-1) ?? '')))
    return {
      run: false,
      reason:
        schema === 'auth'
          ? `Projects cannot have a ${kind.toLowerCase()} on a table of schema auth.`
          : `It belongs to a table of Supabase's own schema ${schema}.`,
    };
  const only = schema === 'auth' ? ' Only users are taken from it.' : '';
  return {
    run: false,
    group: `schema ${schema}`,
    reason: `Supabase's own schema.${only}`,
    weight: 'needless',
  };
}

const isRole = /^(?:ROLE|USER|GROUP)$/;

function judgeRole(name: string, { mainOwner }: Origin): Judgement {
  const isNeedless = name === mainOwner || sharedRoles.has(name) || isOfPlatform(name);
  const reason = 'Roles belong to the server. A project has one role of its own.';
  return { run: false, reason, weight: isNeedless ? 'needless' : 'lost' };
}

function judgeEventTrigger(name: string, { isRowhouse, isSupabase }: Origin): Judgement {
  const own = name.replace(/^EVENT TRIGGER /, '');
  if (isRowhouse && own.startsWith('rowhouse_')) return silently;
  const isOfService = (isSupabase && supabaseEventTriggers.has(own)) || herokuEventTriggers.has(own);
  const weight = isOfService ? 'needless' : 'lost';
  return { run: false, reason: 'Only a superuser can create event triggers.', weight };
}

/** For reports: TABLE public.teas. */
export function labelOf({ kind, schema, name }: Entry): string {
  return schema === null ? `${kind} ${name}` : `${kind} ${schema}.${name}`;
}
