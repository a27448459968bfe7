// The forms of a request that the suite `forms` measures, each as a template for both sides. {id}, {token} and {fresh} change with
// every request.
import { randomUUID } from 'node:crypto';
import { statements } from '../items.mjs';
import { chromium, nodeFetch, preflight } from './headers.mjs';
import { randomId, randomIdInLua } from './project.mjs';

const json = { 'content-type': 'application/json' };
const bearer = (value) => ({ authorization: `Bearer ${value}` });
const apiKey = (value) => ({ 'x-api-key': value });

/** What is asked for, without the headers of the caller. `theirs`: the obvious program's path. */
const operations = (() => {
  const query = (text) => ({
    method: 'POST',
    path: '/query',
    theirs: '/query',
    body: `{"query":${JSON.stringify(text)},"params":[{id}]}`,
  });
  const page = (table, whose = 'any') => ({
    method: 'GET',
    path: `/tables/${table}?id=eq.{id}`,
    theirs: `/${table}/{id}`,
    whose,
  });
  const insert = (table, body) => ({
    method: 'POST',
    path: `/tables/${table}`,
    theirs: `/${table}`,
    body,
  });
  const read = `{"query":${JSON.stringify(statements.Q1)},"params":[{id}]}`;
  return {
    query: query(statements.Q1),
    guardedQuery: query(statements.Q1.replace('from items', 'from guarded')),
    page: page('items'),
    guardedPage: page('guarded'),
    ownPage: page('notes', 'own'),
    teamPage: page('team_notes', 'team'),
    insert: insert('sales', '{"item":{id},"note":"bench"}'),
    userInsert: insert('diary', '{"title":"bench {id}"}'),
    update: {
      method: 'PATCH',
      path: '/tables/stock?id=eq.{id}',
      theirs: '/stock/{id}',
      body: '{"price":12.5}',
    },
    batch: { method: 'POST', path: '/batch', theirs: '/batch', body: `{"statements":[${read},${read}]}` },
  };
})();

/**
 * In the order in which they run, so that the forms of one operation are neighbours. `base`: the form that it is compared with, and
 * `ofBase` what it must reach; `ofObvious`: what it must reach compared with the obvious program. `asUser`: its CPU time
 * is compared with the base's.
 */
export function formsOf({ key, accountKey, publishable }) {
  const ofOperation = (operation, title) => {
    const base = { name: `${title}, X-API-Key`, operation, headers: apiKey(key) };
    const like = (name, headers, more = {}) => ({
      name: `${title}, ${name}`,
      operation,
      headers,
      base: base.name,
      ofBase: 0.95,
      ...more,
    });
    return [
      base,
      like('Bearer', bearer(key)),
      like("Bearer, as Node's fetch sends it", { ...nodeFetch, ...bearer(key) }),
      like("X-API-Key, from a browser's page", { ...chromium, ...apiKey(key) }, { isBrowser: true }),
      like('account key', apiKey(accountKey)),
    ];
  };
  const guarded = (operation, title) => ({
    name: `${title}, X-API-Key, table with row security`,
    operation,
    headers: apiKey(key),
    base: `${title}, X-API-Key`,
    ofBase: 0.9,
  });
  const fromServer = { ...apiKey(key), ...bearer('{token}') };
  const fromBrowser = { ...chromium, ...apiKey(publishable), ...bearer('{token}') };
  const userPage = (operation, policy) => [
    {
      name: `page by id as a user (${policy}), from a server`,
      operation,
      headers: fromServer,
      base: 'page by id, X-API-Key',
      asUser: true,
    },
    {
      name: `page by id as a user (${policy}), from a browser`,
      operation,
      headers: fromBrowser,
      isBrowser: true,
      base: 'page by id, X-API-Key',
      ofBase: 0.6,
      ofObvious: 4,
      asUser: true,
    },
  ];
  const userInsert = {
    operation: operations.userInsert,
    ofObvious: 3,
    base: 'insert, X-API-Key',
    asUser: true,
  };
  const owner = apiKey(key);
  return [
    ...ofOperation(operations.query, 'query'),
    guarded(operations.guardedQuery, 'query'),
    ...ofOperation(operations.page, 'page by id'),
    guarded(operations.guardedPage, 'page by id'),
    ...userPage(operations.ownPage, 'own rows'),
    ...userPage(operations.teamPage, 'rows of teams'),
    {
      name: 'preflight of a page by id',
      operation: { ...operations.ownPage, method: 'OPTIONS' },
      headers: preflight,
      isBrowser: true,
    },
    ...ofOperation(operations.insert, 'insert'),
    { name: 'insert as a user, from a server', headers: fromServer, ...userInsert },
    { name: 'insert as a user, from a browser', headers: fromBrowser, isBrowser: true, ...userInsert },
    {
      name: 'insert with Idempotency-Key',
      operation: operations.insert,
      headers: { ...owner, 'idempotency-key': '{fresh}' },
      base: 'insert, X-API-Key',
      ofObvious: 2,
    },
    { name: 'update by id', operation: operations.update, headers: owner, ofObvious: 2 },
    {
      name: 'batch of two reads',
      operation: operations.batch,
      headers: owner,
      base: 'query, X-API-Key',
      ofObvious: 2.5,
    },
  ];
}

/** Method, path, headers and body of a form for one side, as templates. Both sides get the same headers. */
export function templateOf({ operation, headers, isBrowser }, isOurs) {
  const { body, method, path, theirs } = operation;
  return {
    method,
    path: isOurs ? path : (isBrowser ? '/browser' : '') + theirs,
    headers: { ...(body && json), ...headers },
    body,
  };
}

/** A request for wrk: `before` and `request` of its script. `prefix` comes before the paths. */
export function toLua(form, isOurs, prefix, tokens) {
  const { method, path, headers, body } = templateOf(form, isOurs);
  const entries = Object.entries(headers);
  const isFixed = ([, value]) => !/\{\w+\}/.test(value);
  const set = ([name, value]) => `sent['${name}'] = ${textInLua(value)}`;
  const target = textInLua(prefix + path);
  return {
    before: `local sent = {}
${entries.filter(isFixed).map(set).join('\n')}
local tokens = { ${tokens.map((token) => `'${token}'`).join(', ')} }
local count = 0
local unique = '${randomUUID()}-'`,
    request: `
  local user = math.random(0, ${tokens.length - 1})
  local id = ${randomIdInLua(form.operation.whose ?? 'any', tokens.length)}
  count = count + 1
  ${entries
    .filter((entry) => !isFixed(entry))
    .map(set)
    .join('\n  ')}
  return wrk.format('${method}', ${target}, sent, ${body ? textInLua(body) : 'nil'})
`,
  };
}

const variables = { id: 'string.format("%d", id)', token: 'tokens[user + 1]', fresh: 'unique .. count' };

function textInLua(template) {
  return template
    .split(/\{(id|token|fresh)\}/)
    .map((part, n) => (n % 2 ? variables[part] : `'${part.replace(/[\\']/g, '\\$&')}'`))
    .join(' .. ');
}

/** One request, for fetch, and the id that it asks for. */
export function toRequest(form, isOurs, tokens) {
  const user = Math.floor(Math.random() * tokens.length);
  const id = randomId(form.operation.whose ?? 'any', user, tokens.length);
  const values = { id, token: tokens[user], fresh: randomUUID() };
  const fill = (text) => text.replace(/\{(id|token|fresh)\}/g, (_, name) => values[name]);
  const { method, path, headers, body } = templateOf(form, isOurs);
  return {
    id,
    path: fill(path),
    options: {
      method,
      headers: Object.fromEntries(
        Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => [name, fill(value)]),
      ),
      ...(body && { body: fill(body) }),
    },
  };
}
