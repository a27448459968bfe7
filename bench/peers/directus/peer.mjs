// It looks at the tables that are there. Called with the administrator's token; no cache, which is its default.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;

export const about = {
  name: 'directus',
  what: "the administrator's token; its pressure limiter is off, or it would refuse; it asks for Node.js 22 and runs on 20",
  passwords: 'argon2id',
};
export const install = () => parts.installPackages(folderOfPeer, { rebuild: ['isolated-vm'] });
export const versions = () => parts.versionsOf(folderOfPeer, 'directus');

export async function start({ databaseUrl, folder, port }) {
  const url = `http://127.0.0.1:${port}`;
  const env = {
    HOST: '127.0.0.1',
    PORT: String(port),
    PUBLIC_URL: url,
    SECRET: 'only for the benchmark, only for the benchmark',
    DB_CLIENT: 'pg',
    DB_CONNECTION_STRING: databaseUrl,
    ADMIN_EMAIL: parts.emailOf(0),
    ADMIN_PASSWORD: parts.password,
    ADMIN_TOKEN: 'only-for-the-benchmark',
    TELEMETRY: 'false',
    LOG_LEVEL: 'warn',
    PRESSURE_LIMITER_ENABLED: 'false',
  };
  const cli = path.join(folderOfPeer, 'node_modules/directus/cli.js');
  execFileSync(process.execPath, [cli, 'bootstrap'], {
    cwd: folder,
    env: { ...process.env, NODE_ENV: 'production', ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const program = await parts.startProgram({
    command: process.execPath,
    args: [cli, 'start'],
    env,
    folder,
    probe: `${url}/server/ping`,
  });
  const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}` };
  const get = (target) => ({ method: 'GET', path: target, headers });
  const signin = JSON.stringify({ email: parts.emailOf(0), password: parts.password });
  const requests = {
    Q1: get('/items/items/{id}'),
    Q2: get('/items/items?filter%5Bid%5D%5B_gte%5D={id}&sort=id&limit=50'),
    Q3: get('/items/items?sort=id&limit=10000'),
    Q4: { method: 'POST', path: '/items/sales', headers, body: '{"item":{id},"note":"bench"}' },
    page: get('/items/items?sort=id&limit=50'),
    signin: { method: 'POST', path: '/auth/login', body: signin },
  };
  return { ...program, requests, users: 'made' };
}
