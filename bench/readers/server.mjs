// The pipeline of requests for data without statements: everything that a request passes through on its way in and out, behind
// the reader that READER names (`ours` or `node`). bench/readers.mjs runs it.
const dist = new URL('../../packages/server/dist/', import.meta.url);
const load = (file) => import(new URL(file, dist).href);
const [{ openDataPipeline }, { identifyByKey }, { openCors }, { queryRoutes }, { tableRoutes }] =
  await Promise.all([
    load('http/data/pipeline.js'),
    load('http/data/identify.js'),
    load('http/cors.js'),
    load('http/data/query.js'),
    load('http/data/tables.js'),
  ]);
const [{ createNodeServer }, { openFastConnections }, { NodeExchange }] = await Promise.all([
  load('http/fast/node-server.js'),
  load('http/fast/fast-connections.js'),
  load('http/http-exchange.js'),
]);

/** The first rows of the benchmarks' table. */
const answer = Buffer.from(
  '{"ok":true,"rows":[{"id":12345,"name":"item 12345","price":12.5,"created_at":"2026-01-01T00:00:00+00:00"}],"row_count":1}',
);
const caller = {
  kind: 'project',
  keyId: 'k',
  accountId: 'a',
  projectId: 'p',
  serverId: 1,
  scopes: [],
  tables: null,
};
const login = { id: 'p', serverId: 1, accountId: 'a', caller: 'k' };
const deps = {
  keyRing: { recall: () => caller },
  rates: { require: () => {} },
  logins: { recall: () => login },
  limits: { maxTimeoutMs: 120_000 },
  query: { admission: { headroom: { recall: () => ({ size_mb: 1, limit_mb: 2 }) } } },
  log: console,
};
const data = openDataPipeline(deps, () => {});
const cors = openCors('*');
const headOf = ({ headers: { origin } }) => (origin === undefined ? [] : cors(origin));
const withoutStatement = (route) => ({
  ...route,
  run: () => Promise.resolve(route.method === 'POST' && route.takesRows ? { answer, isNew: true } : answer),
});
// The framework is told of the routes and never asked.
const framework = { route: () => {} };
const way = { prefix: '/api/dbaas/v2', identify: identifyByKey, headOf };
data.declare(framework, way, [...queryRoutes, ...tableRoutes].map(withoutStatement));

const server = createNodeServer({}, null, (request, response) => {
  if (!data.answer(new NodeExchange(request, response))) response.writeHead(404).end();
});
if (process.env.READER === 'ours')
  openFastConnections(server, { event: 'connection', answerData: data.answer, checkMs: 1_000 });
server.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('ready'));
