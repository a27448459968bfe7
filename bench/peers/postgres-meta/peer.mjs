// SQL over HTTP, as Supabase's own dashboard uses it. It opens a connection for every request.
import path from 'node:path';
import { statements } from '../../items.mjs';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;

export const about = {
  name: '@supabase/postgres-meta',
  what: 'SQL over HTTP, a connection for each request',
};
export const install = () => parts.installPackages(folderOfPeer);
export const versions = () => parts.versionsOf(folderOfPeer, '@supabase/postgres-meta');

export async function start({ databaseUrl, folder, port }) {
  const program = await parts.startProgram({
    command: process.execPath,
    args: [path.join(folderOfPeer, 'node_modules/@supabase/postgres-meta/dist/server/server.js')],
    // Its port for the administration is the next one.
    env: { PG_META_HOST: '127.0.0.1', PG_META_PORT: String(port), PG_META_DB_URL: databaseUrl },
    folder,
    probe: `http://127.0.0.1:${port}/`,
  });
  const requests = {};
  for (const [workload, text] of Object.entries(statements)) {
    const parameters = text.includes('$1') ? '[{id}]' : '[]';
    const body = `{"query":${JSON.stringify(text)},"parameters":${parameters}}`;
    requests[workload] = { method: 'POST', path: '/query', body };
  }
  return { ...program, requests };
}
