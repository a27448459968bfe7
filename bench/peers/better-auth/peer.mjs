import path from 'node:path';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;

export const about = {
  name: 'better-auth',
  what: 'behind node:http; its own limit of requests is off; the newest version whose packages could be had',
  passwords: 'scrypt, N = 16384, r = 16',
};
export const install = () => parts.installPackages(folderOfPeer);
export const versions = () => parts.versionsOf(folderOfPeer, 'better-auth', 'pg');

export async function start({ databaseUrl, folder, port }) {
  const url = `http://127.0.0.1:${port}`;
  const program = await parts.startProgram({
    command: process.execPath,
    args: [path.join(folderOfPeer, 'server.mjs')],
    env: { DATABASE_URL: databaseUrl, PORT: String(port) },
    folder,
    probe: `${url}/api/auth/ok`,
  });
  const post = (target, body) => ({
    method: 'POST',
    path: target,
    headers: { origin: url },
    body: JSON.stringify(body),
  });
  const requests = {
    signup: post('/api/auth/sign-up/email', {
      name: 'Ada',
      email: parts.emailOf('{n}'),
      password: parts.password,
    }),
    signin: post('/api/auth/sign-in/email', { email: parts.emailOf('{user}'), password: parts.password }),
  };
  return { ...program, requests };
}
