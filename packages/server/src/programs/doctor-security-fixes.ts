// `rowhouse doctor`: what the running PostgreSQL and Node.js lack of the security fixes that this release knows.
import { type Check, ok, warning } from '../lib/check.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { findBinaries, probeBinaries } from '../servers/embedded/binaries.ts';
import { findRunAs } from '../servers/embedded/run-as.ts';
import { readFacts } from '../servers/server.ts';
import {
  knownUntil,
  lackedByNode,
  lackedByPostgres,
  nodeRemedy,
  remedyOf,
} from '../settings/security-fixes.ts';

export function checkNodeFixes(): Check {
  const lacked = lackedByNode(process.versions.node, Date.now());
  return lacked
    ? warning('security fixes', lacked.found, nodeRemedy)
    : ok('security fixes', `Node.js ${process.versions.node} still gets them`);
}

/** None if the programs cannot be run, which another check reports. */
export function checkEmbeddedFixes({ cluster }: { cluster: string }): Check[] {
  const folder = findBinaries();
  if (!folder) return [];
  const runAs = findRunAs(cluster);
  const answers = [runAs, null].map((who) => probeBinaries(folder, who));
  const found = answers.find((answer) => typeof answer === 'object');
  return typeof found === 'object' ? [fixesOf('security fixes', found.version, true)] : [];
}

export async function checkServerFixes(check: string, database: Queryable): Promise<Check> {
  const { version } = await readFacts(database);
  return fixesOf(check, version, false);
}

function fixesOf(check: string, text: string, isEmbedded: boolean): Check {
  const version = /\d+\.\d+/.exec(text)?.[0] ?? text;
  const lacked = lackedByPostgres(version);
  return lacked
    ? warning(check, lacked.found, remedyOf(lacked, isEmbedded))
    : ok(check, `PostgreSQL ${version} has all that were known on ${knownUntil}`);
}
