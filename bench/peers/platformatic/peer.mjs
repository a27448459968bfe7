import path from 'node:path';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;

export const about = {
  name: 'platformatic',
  what: 'REST; the newest version that does not ask for Node.js 22 (3.67 does not start on 20)',
};
export const install = () => parts.installPackages(folderOfPeer);
export const versions = () => parts.versionsOf(folderOfPeer, '@platformatic/db');

export async function start({ databaseUrl, folder, port }) {
  const program = await parts.startProgram({
    command: process.execPath,
    args: [path.join(folderOfPeer, 'server.mjs')],
    env: { DATABASE_URL: databaseUrl, PORT: String(port) },
    folder,
    probe: `http://127.0.0.1:${port}/items?limit=1`,
  });
  const get = (target) => ({ method: 'GET', path: target });
  const requests = {
    Q1: get('/items/{id}'),
    Q2: get('/items/?where.id.gte={id}&orderby.id=asc&limit=50'),
    Q3: get('/items/?orderby.id=asc&limit=10000'),
    Q4: { method: 'POST', path: '/sales', body: '{"item":{id},"note":"bench"}' },
    page: get('/items/?orderby.id=asc&limit=50'),
  };
  return { ...program, requests };
}
