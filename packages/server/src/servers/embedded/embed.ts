// A restored server that was not embedded becomes the embedded one of a data folder: it gets the superuser and the
// configuration that a new one would have.
import { chownSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { scramVerifier } from '../../postgres/wire/scram.ts';
import { derivePassword } from '../role-passwords.ts';
import { type Cluster, superuser } from './postmaster.ts';

export async function embedSuperuser(database: Queryable, masterKey: Buffer): Promise<void> {
  const role = sql.id(superuser);
  const [found] = await database.query(sql`select from pg_roles where rolname = ${superuser}`);
  if (!found) await database.query(sql`create role ${role}`);
  await database.query(sql`
    alter role ${role} superuser createdb createrole replication bypassrls login connection limit -1
    valid until 'infinity' password ${sql.literal(scramVerifier(derivePassword(masterKey, superuser)))}`);
  // Settings of an operator's role, such as a time limit, were not made for the service.
  await database.query(sql`alter role ${role} reset all`);
}

/** All other settings are given at each start (embedded-settings.ts). */
export function embedConfiguration(
  cluster: Pick<Cluster, 'folder' | 'runAs'>,
  kept: Record<string, string>,
): void {
  const settings = { default_text_search_config: 'pg_catalog.english', ...kept };
  const lines = Object.entries(settings).map(
    ([name, value]) => `${name} = '${value.replaceAll("'", "''")}'\n`,
  );
  writeConfiguration(cluster, { configuration: lines.join(''), access: scramOnly });
}

/** As initdb writes it with `-A scram-sha-256`. */
const scramOnly = ['all', 'replication']
  .flatMap((database) => [
    `local ${database} all scram-sha-256`,
    `host ${database} all 127.0.0.1/32 scram-sha-256`,
    `host ${database} all ::1/128 scram-sha-256`,
  ])
  .map((line) => `${line}\n`)
  .join('');

/** `access`: pg_hba.conf. */
export function writeConfiguration(
  { folder, runAs }: Pick<Cluster, 'folder' | 'runAs'>,
  { configuration, access }: { configuration: string; access: string },
): void {
  const files = {
    'postgresql.conf': configuration,
    'postgresql.auto.conf': '',
    'pg_ident.conf': '',
    'pg_hba.conf': access,
  };
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(folder, name);
    // Not through a link: the folder comes from another machine.
    rmSync(file, { force: true });
    writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
    if (runAs) chownSync(file, runAs.uid, runAs.gid);
  }
}
