// PostgreSQL refuses to run as root. If root starts the service, PostgreSQL runs as an existing account; no account is ever
// created.
import { readFileSync, statSync } from 'node:fs';
import { EngineError } from '../engine-error.ts';

export type RunAs = Readonly<{ uid: number; gid: number; name: string }>;

/** In this order: a dedicated account, the account of a system PostgreSQL, the account that every Unix has. */
const candidates = ['rowhouse', 'postgres', '_postgres', 'nobody'];

/** null: run as the current account. An existing cluster folder keeps its owner. */
export function findRunAs(clusterFolder: string): RunAs | null {
  if (process.getuid?.() !== 0) return null;
  const owner = statSync(clusterFolder, { throwIfNoEntry: false });
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid, name: `uid ${owner.uid}` };
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter(([, , uid]) => Number(uid) > 0);
  for (const name of candidates) {
    const entry = accounts.find(([candidate]) => candidate === name);
    if (entry) return { uid: Number(entry[2]), gid: Number(entry[3]), name };
  }
  throw new EngineError(
    `PostgreSQL cannot run as root, and none of the accounts ${candidates.join(', ')} exists. Start Rowhouse as an ordinary user.`,
  );
}
