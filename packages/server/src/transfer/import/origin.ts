// The origin of a dump, found in its own content: which role owned most of it, and which service its schemas belong to.
import { ownText } from '../read/own-text.ts';
import type { Heading } from '../read/script.ts';
import { supabaseRoles, supabaseSchemas } from './platforms.ts';

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
