// Schemas that a dump expects and does not create: Supabase has `extensions` from the start, and a dump of some tables
// leaves out their schema.
import { sql } from '../../postgres/sql.ts';
import type { ImportSession } from './import-session.ts';
import { type Entry, isOwnSchema, type Origin } from './origin.ts';

export class Schemas {
  private readonly session: ImportSession;
  private readonly origin: Origin;
  private readonly made = new Set<string>();

  constructor(session: ImportSession, origin: Origin) {
    this.session = session;
    this.origin = origin;
  }

  async begin(): Promise<void> {
    const { expects } = this.origin;
    if (expects === null) return;
    await this.create('extensions');
    await this.session.run('grant usage on schema extensions to anon, authenticated, service_role');
    for (const name of expects)
      await this.session.run(`create extension if not exists ${sql.id(name).text} with schema extensions`);
  }

  /** After a statement that found no schema. False: none was made, so another try is of no use. */
  async make(text: string, entry: Entry | null): Promise<boolean> {
    const [, quoted, bare] = extensionSchema.exec(text.slice(0, 1_000)) ?? [];
    const name = quoted ?? bare?.toLowerCase() ?? entry?.schema ?? null;
    if (name === null || this.made.has(name) || isOwnSchema(name) || this.made.size >= maxMade) return false;
    return this.create(name);
  }

  private async create(name: string): Promise<boolean> {
    this.made.add(name);
    const { error } = await this.session.run(`create schema if not exists ${sql.id(name).text}`);
    return error === null;
  }
}

const maxMade = 1_000;
const extensionSchema =
  /^create\s+extension\s[^;]{0,200}\bschema\s+(?:"([^"]{1,63})"|([A-Za-z_][\w$]{0,62}))/i;
