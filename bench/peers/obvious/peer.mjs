// The obvious program: fastify, a pg pool of 10, JSON.stringify (server.mjs). It runs on the service's own packages.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { statements } from '../../items.mjs';
import { startProgram } from '../parts.mjs';

export const about = { name: 'obvious', what: 'fastify and pg: no key, no isolation, no limits' };

export const install = () => {};

export function versions() {
  const require = createRequire(import.meta.url);
  return ['fastify', 'pg'].map((name) => {
    const folder = require.resolve(name).split(`${path.sep}node_modules${path.sep}`)[0];
    const file = path.join(folder, 'node_modules', name, 'package.json');
    return `${name} ${JSON.parse(readFileSync(file, 'utf8')).version}`;
  });
}

export async function start({ databaseUrl, folder, port }) {
  const program = await startProgram({
    command: process.execPath,
    args: [path.join(import.meta.dirname, 'server.mjs')],
    env: { DATABASE_URL: databaseUrl, PORT: String(port) },
    folder,
    probe: `http://127.0.0.1:${port}/items`,
  });
  const query = (text) => ({
    method: 'POST',
    path: '/query',
    body: `{"query":${JSON.stringify(text)},"params":${text.includes('$1') ? '[{id}]' : '[]'}}`,
  });
  const requests = { page: { method: 'GET', path: '/items' } };
  for (const [workload, text] of Object.entries(statements)) requests[workload] = query(text);
  return { ...program, requests };
}
