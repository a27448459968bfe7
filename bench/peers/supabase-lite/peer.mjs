// On PostgreSQL, which it can use instead of SQLite; without keys, so that it checks none.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;

export const about = {
  name: '@supabase/lite',
  what: 'on PostgreSQL; no API key is checked',
  passwords: 'bcrypt, in JavaScript',
};
export const install = () => parts.installPackages(folderOfPeer);
export const versions = () => parts.versionsOf(folderOfPeer, '@supabase/lite', 'postgres');

export async function start({ databaseUrl, folder, port }) {
  mkdirSync(path.join(folder, 'supabase'), { recursive: true });
  const settings = `[api]
port = ${port}
max_rows = 10000

[db]
driver = "postgres"
url = "${databaseUrl}"

[auth]
enabled = true
jwt_secret = "only for the benchmark, only for the benchmark"
enable_signup = true

[auth.email]
enable_confirmations = false
`;
  writeFileSync(path.join(folder, 'supabase', 'config.toml'), settings);
  const url = `http://127.0.0.1:${port}`;
  const program = await parts.startProgram({
    command: process.execPath,
    args: [
      path.join(folderOfPeer, 'node_modules/@supabase/lite/dist/cli/index.js'),
      '--no-telemetry',
      'start',
      '--admin',
    ],
    env: { LITE_TELEMETRY: '0' },
    folder,
    probe: `${url}/rest/v1/items?limit=1`,
  });
  const get = (target) => ({ method: 'GET', path: target });
  const post = (target, body) => ({ method: 'POST', path: target, body });
  const user = (n) => JSON.stringify({ email: parts.emailOf(n), password: parts.password });
  const requests = {
    Q1: get('/rest/v1/items?id=eq.{id}'),
    Q2: get('/rest/v1/items?id=gte.{id}&order=id&limit=50'),
    Q3: get('/rest/v1/items?order=id&limit=10000'),
    Q4: post('/rest/v1/sales', '{"item":{id},"note":"bench"}'),
    page: get('/rest/v1/items?order=id&limit=50'),
    signup: post('/auth/v1/signup', user('{n}')),
    signin: post('/auth/v1/token?grant_type=password', user('{user}')),
  };
  return { ...program, requests };
}
