// The origin of a dump, judged by its own content: which role owned most of it, and which service its schemas belong to.
// This decides what is left out. It does not decide about rights: everything runs as the role of the new project.
import type { Heading } from '../read/script.ts';

export type Entry = Heading;

export type Origin = Readonly<{
  /** The role that owned most objects: the new project's role takes its place. */
  mainOwner: string | null;
  owners: ReadonlySet<string>;
  isRowhouse: boolean;
  isSupabase: boolean;
}>;

/** Collects what is known about a dump, entry by entry. */
export class OriginSearch {
  private readonly owners = new Map<string, number>();
  private readonly schemas = new Set<string>();
  private readonly authTables = new Set<string>();

  note({ kind, schema, name, owner }: Entry): void {
    if (kind === 'SCHEMA') this.schemas.add(name);
    if (kind === 'TABLE' && schema === 'auth') this.authTables.add(name);
    if (owner === null || this.owners.size >= maxOwners) return;
    const weight = schema !== null && !ownSchemas.has(schema) ? 1 : 0;
    this.owners.set(owner, (this.owners.get(owner) ?? 0) + weight);
  }

  result(): Origin {
    const { owners, schemas, authTables } = this;
    const [main] = [...owners].sort(([, one], [, other]) => other - one);
    const isRowhouse = ['users', 'passwords', 'attempts'].every((name) => authTables.has(name));
    // A project may have schemas of these names.
    const isSupabase =
      [...owners.keys()].some((name) => name.startsWith('supabase_')) ||
      (schemas.has('storage') && schemas.has('realtime'));
    return {
      mainOwner: main?.[0] ?? null,
      owners: new Set(owners.keys()),
      isRowhouse,
      isSupabase: isSupabase && !isRowhouse,
    };
  }
}

const maxOwners = 10_000;
/** Every project has them, and they belong to the service. */
export const ownSchemas: ReadonlySet<string> = new Set(['auth', 'rowhouse']);

/** Supabase's services own these; without the services they have no use. */
const supabaseSchemas: ReadonlySet<string> = new Set([
  ...[
    'storage',
    'realtime',
    '_realtime',
    'supabase_functions',
    'supabase_migrations',
    '_supavisor',
    '_analytics',
  ],
  ...[
    'vault',
    'graphql',
    'graphql_public',
    'pgbouncer',
    'pgsodium',
    'pgsodium_masks',
    'pgtle',
    'net',
    'cron',
  ],
]);

export type Judgement =
  | Readonly<{ run: true }>
  /** `reason` null: nothing is lost. */
  | Readonly<{ run: false; reason: string | null; group?: string }>;

const run: Judgement = { run: true };
const silently: Judgement = { run: false, reason: null };

export function judge(entry: Entry, origin: Origin): Judgement {
  const { kind, name } = entry;
  if (ofDatabase.test(kind) || /^DATABASE /.test(name)) {
    if (kind !== 'DATABASE PROPERTIES' || origin.isRowhouse) return silently;
    return { run: false, reason: 'Settings of a database cannot be changed by a project.' };
  }
  if (kind === 'STATISTICS DATA') return silently;
  const schema = schemaOf(entry);
  if (schema !== null && ownSchemas.has(schema)) return judgeOwn(entry, schema, origin);
  if (schema !== null && origin.isSupabase && supabaseSchemas.has(schema))
    return { run: false, group: `schema ${schema}`, reason: "Supabase's own schema." };
  if (kind === 'EVENT TRIGGER' || /^EVENT TRIGGER /.test(name)) {
    const isOurs = origin.isRowhouse && name.replace(/^EVENT TRIGGER /, '').startsWith('rowhouse_');
    return isOurs ? silently : { run: false, reason: 'Only a superuser can create event triggers.' };
  }
  if (/^SUBSCRIPTION/.test(kind)) return { run: false, reason: 'Projects cannot have subscriptions.' };
  // A move was running when the dump was made.
  if (/^PUBLICATION/.test(kind) && origin.isRowhouse && /\browhouse_move/.test(name)) return silently;
  if (/^PUBLICATION/.test(kind) && origin.isSupabase)
    return { run: false, reason: "It serves Supabase's own services." };
  if (kind === 'PROCEDURAL LANGUAGE' && name === 'plpgsql') return silently;
  if (/^(?:EXTENSION|LANGUAGE|PROCEDURAL LANGUAGE) plpgsql$/.test(name)) return silently;
  if (kind === 'EXTENSION' && name === 'plpgsql') return silently;
  return run;
}

const ofDatabase = /^DATABASE( PROPERTIES)?$/;

/** Of a schema's own entries, the schema itself: ACL and COMMENT name it as "SCHEMA x". */
function schemaOf({ kind, schema, name }: Entry): string | null {
  if (schema !== null) return schema;
  if (kind === 'SCHEMA') return name;
  return /^SCHEMA (.*)$/.exec(name)?.[1]?.replace(/^"(.*)"$/, '$1') ?? null;
}

function judgeOwn({ kind }: Entry, schema: string, { isRowhouse, isSupabase }: Origin): Judgement {
  if (isRowhouse) return silently;
  if (isSupabase) {
    if (kind === 'TRIGGER' || kind === 'POLICY')
      return {
        run: false,
        reason: `Projects cannot have a ${kind.toLowerCase()} on a table of schema auth.`,
      };
    return {
      run: false,
      group: `schema ${schema}`,
      reason: "Supabase's own schema. Only users are taken from it.",
    };
  }
  return {
    run: false,
    group: `schema ${schema}`,
    reason: `In every project, the schema ${schema} belongs to Rowhouse. Rename the schema, then dump again.`,
  };
}

/** For reports: TABLE public.teas. */
export function labelOf({ kind, schema, name }: Entry): string {
  return schema === null ? `${kind} ${name}` : `${kind} ${schema}.${name}`;
}
