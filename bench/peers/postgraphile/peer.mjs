// GraphQL over the tables that are there, with the preset that its documentation begins with, and a pg pool of 10.
import path from 'node:path';
import * as parts from '../parts.mjs';

const folderOfPeer = import.meta.dirname;

export const about = {
  name: 'postgraphile',
  what: 'GraphQL; the newest version that runs on Node.js 20; no “from a key on” (Q2) without a plugin',
};
export const install = () => parts.installPackages(folderOfPeer);
export const versions = () => parts.versionsOf(folderOfPeer, 'postgraphile');

export async function start({ databaseUrl, folder, port }) {
  const program = await parts.startProgram({
    command: process.execPath,
    args: [path.join(folderOfPeer, 'node_modules/postgraphile/dist/cli-run.js')].concat(
      ...[
        ['--config', path.join(folderOfPeer, 'graphile.config.mjs')],
        ['--connection', databaseUrl],
        ['--host', '127.0.0.1'],
        ['--port', String(port)],
      ],
    ),
    env: { GRAPHILE_ENV: 'production' },
    cwd: folderOfPeer,
    folder,
    probe: `http://127.0.0.1:${port}/graphql?query=%7B__typename%7D`,
  });
  const fields = 'rowId name price inStock tags createdAt';
  const ask = (query, variables) => ({
    method: 'POST',
    path: '/graphql',
    body: JSON.stringify({ query, variables }),
  });
  const first = (count) =>
    ask(`{ allItems(first: ${count}, orderBy: [ROW_ID_ASC]) { nodes { ${fields} } } }`, {});
  const requests = {
    Q1: ask(`query ($id: BigInt!) { itemByRowId(rowId: $id) { ${fields} } }`, { id: '{id}' }),
    Q3: first(10_000),
    Q4: ask(
      'mutation ($id: BigInt!) { createSale(input: { sale: { item: $id, note: "bench" } }) { sale { rowId } } }',
      { id: '{id}' },
    ),
    page: first(50),
  };
  return { ...program, requests };
}
