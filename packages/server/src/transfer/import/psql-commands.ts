// Commands of psql in a script. None is run; those that change nothing about what the dump brings along are needless.
import type { Entry } from './origin.ts';
import type { Weight } from './report.ts';

type Left = Readonly<{ reason: string; weight: Weight }>;

export class PsqlCommands {
  /** Made by the dump itself. */
  private database: string | null = null;
  private isConnected = false;

  /** CREATE DATABASE, as pg_dump --create writes it before \connect. */
  note(entry: Entry | null, text: string): void {
    if (entry?.kind === 'DATABASE' && /^create\b/i.test(text)) this.database = entry.name;
  }

  /** null: nobody would miss it. */
  judge(text: string, reason: string): Left | null {
    const [, target = null] = connect.exec(text.trim()) ?? [];
    if (target === null) return { reason, weight: changesNothing.test(text) ? 'needless' : 'lost' };
    const isFirst = !this.isConnected && this.database !== null && namesOf(this.database).includes(target);
    this.isConnected = true;
    return isFirst ? null : { reason: oneDatabase, weight: 'lost' };
  }
}

const connect = /^\\c(?:onnect)?\b\s*([^\\]*)$/;
const oneDatabase =
  'A project has one database and one role, so the statements after this command were imported into that same database.';
/** They change only what psql shows. */
const changesNothing = /^\\(?:echo|qecho|warn|timing|pset|x|a|t|set|unset|conninfo)\b[^\\]*$/;

/** The forms in which pg_dump names it. */
function namesOf(database: string): string[] {
  const quoted = `dbname='${database.replace(/[\\']/g, '\\$&')}'`;
  return [database, `"${database}"`, `-reuse-previous=on "${quoted}"`];
}
