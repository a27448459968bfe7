// It keeps rows in tables of its own make: the same columns under a text key, filled by SQL, with an index on the number.
import path from 'node:path';
import { rows } from '../../items.mjs';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;

export const about = {
  name: 'parse-server',
  what: 'objects in its own tables, called with the application id',
  passwords: 'bcrypt, 10 rounds',
};
export const install = () => parts.installPackages(folderOfPeer);
export const versions = () => parts.versionsOf(folderOfPeer, 'parse-server');

export async function start({ databaseUrl, folder, port }) {
  const url = `http://127.0.0.1:${port}`;
  const program = await parts.startProgram({
    command: process.execPath,
    args: [path.join(folderOfPeer, 'node_modules/parse-server/bin/parse-server')],
    env: {
      PARSE_SERVER_APPLICATION_ID: 'bench',
      PARSE_SERVER_MASTER_KEY: 'only for the benchmark',
      PARSE_SERVER_DATABASE_URI: databaseUrl,
      PARSE_SERVER_URL: `${url}/parse`,
      PARSE_SERVER_HOST: '127.0.0.1',
      PORT: String(port),
      SILENT: '1',
      PARSE_SERVER_LOGS_FOLDER: path.join(folder, 'parse-logs'),
    },
    folder,
    probe: `${url}/parse/health`,
  });
  const headers = { 'x-parse-application-id': 'bench' };
  const master = { ...headers, 'x-parse-master-key': 'only for the benchmark' };
  const field = (type) => ({ type });
  const classes = {
    Item: {
      number: field('Number'),
      name: field('String'),
      price: field('Number'),
      in_stock: field('Boolean'),
      tags: field('Object'),
      at: field('Date'),
    },
    Sale: { item: field('Number'), note: field('String') },
  };
  for (const [className, fields] of Object.entries(classes)) {
    const body = JSON.stringify({ className, fields });
    await parts.ask(url, { method: 'POST', path: `/parse/schemas/${className}`, headers: master, body });
  }
  parts.sql(
    databaseUrl,
    `insert into "Item" ("objectId", "createdAt", "updatedAt", number, name, price, in_stock, tags, at)
    select n::text, now(), now(), n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, ${rows}) as n`,
    'create index on "Item" (number)',
    'vacuum analyze "Item"',
  );
  const list = (where, limit) => {
    const query = new URLSearchParams({ ...(where && { where }), order: 'number', limit });
    // The placeholder stays as it is.
    return `/parse/classes/Item?${String(query).replace('%7Bid%7D', '{id}')}`;
  };
  const post = (target, body) => ({
    method: 'POST',
    path: target,
    headers,
    body: JSON.stringify(body).replace('"{id}"', '{id}'),
  });
  const user = (n) => ({ username: parts.emailOf(n), email: parts.emailOf(n), password: parts.password });
  const requests = {
    Q1: { method: 'GET', path: '/parse/classes/Item/{id}', headers },
    Q2: { method: 'GET', path: list('{"number":{"$gte":{id}}}', 50), headers },
    Q3: { method: 'GET', path: list('', 10_000), headers },
    Q4: post('/parse/classes/Sale', { item: '{id}', note: 'bench' }),
    page: { method: 'GET', path: list('', 50), headers },
    signup: post('/parse/users', user('{n}')),
    signin: post('/parse/login', { username: parts.emailOf('{user}'), password: parts.password }),
  };
  return { ...program, requests };
}
