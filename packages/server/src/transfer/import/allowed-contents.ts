// What an import may contain: which entries of a dump run in the new project, and which are left out, with the reason for the report.
// It does not decide about rights: everything runs as the role of the new project. How much an import may contain is in
// settings/limits/imports.ts.
import { type Entry, type Origin, ownSchemas } from './origin.ts';
import {
  herokuEventTriggers,
  isOfPlatform,
  needlessRows,
  sharedRoles,
  supabaseEventTriggers,
  supabaseSchemas,
  supabaseTriggers,
} from './platforms.ts';
import type { Weight } from './report.ts';

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
