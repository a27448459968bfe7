// A Go program with SQLite inside, built from the module proxy: its own main program. Rows have a text key of 15
// characters there; a page has at most 1,000 rows, so it cannot do Q3.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { rows } from '../../items.mjs';
import * as parts from '../parts.mjs';

const version = 'v0.36.8';
const { install, program } = parts.goProgram(
  import.meta.dirname,
  'github.com/pocketbase/pocketbase/examples/base',
  version,
);

export const about = {
  name: 'PocketBase',
  what: 'SQLite inside, in its own process; at most 1,000 rows an answer; newer versions want Go 1.27',
  passwords: 'bcrypt, 10 rounds',
};
export { install };
export const versions = () => [`PocketBase ${version}`];

/** Collections that anybody may read and write, as they are made and filled by a migration. */
const migration = `migrate((app) => {
  const open = { listRule: '', viewRule: '', createRule: '' };
  app.save(new Collection({ type: 'base', name: 'items', ...open, fields: [
    { type: 'number', name: 'number' },
    { type: 'text', name: 'name' },
    { type: 'number', name: 'price' },
    { type: 'bool', name: 'in_stock' },
    { type: 'json', name: 'tags' },
    { type: 'date', name: 'at' },
  ], indexes: ['create index items_number on items (number)'] }));
  app.save(new Collection({ type: 'base', name: 'sales', ...open, fields: [
    { type: 'number', name: 'item' },
    { type: 'text', name: 'note' },
    { type: 'autodate', name: 'at', onCreate: true },
  ] }));
  app.db().newQuery("insert into items (id, number, name, price, in_stock, tags, at) with recursive series(n) as (select 1 union all select n + 1 from series where n < ${rows}) select printf('%015d', n), n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, json_object('color', 'red', 'sizes', json_array(n % 7, n % 11)), strftime('%Y-%m-%d %H:%M:%S.000Z', '2026-01-01', n || ' minutes') from series").execute();
});
`;

export async function start({ folder, port }) {
  const data = path.join(folder, 'pb_data');
  const migrations = path.join(folder, 'pb_migrations');
  mkdirSync(migrations, { recursive: true });
  writeFileSync(path.join(migrations, '1800000000_bench.js'), migration);
  const folders = ['--dir', data, '--migrationsDir', migrations];
  execFileSync(program, ['migrate', 'up', ...folders], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  const url = `http://127.0.0.1:${port}`;
  const started = await parts.startProgram({
    command: program,
    args: ['serve', `--http=127.0.0.1:${port}`, ...folders],
    folder,
    probe: `${url}/api/health`,
  });
  const list = (filter) => {
    const wanted = `sort=number&perPage=50&skipTotal=1${filter ? `&filter=${filter}` : ''}`;
    return { method: 'GET', path: `/api/collections/items/records?${wanted}` };
  };
  const post = (target, body) => ({ method: 'POST', path: target, body });
  const user = (n) =>
    JSON.stringify({ email: parts.emailOf(n), password: parts.password, passwordConfirm: parts.password });
  const requests = {
    Q1: { method: 'GET', path: '/api/collections/items/records/{id15}' },
    Q2: list('number%3E%3D{id}'),
    Q4: post('/api/collections/sales/records', '{"item":{id},"note":"bench"}'),
    page: list(),
    signup: post('/api/collections/users/records', user('{n}')),
    signin: post(
      '/api/collections/users/auth-with-password',
      JSON.stringify({ identity: parts.emailOf('{user}'), password: parts.password }),
    ),
  };
  return { ...started, requests };
}
