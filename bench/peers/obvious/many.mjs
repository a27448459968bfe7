// The obvious program for many databases: fastify, and for each database a pg pool of two that is opened when it is needed
// and kept. SERVER_URL is the address of the server, and the database is part of the path.
import Fastify from 'fastify';
import pg from 'pg';

const pools = new Map();
function poolOf(database) {
  const known = pools.get(database);
  if (known) return known;
  const url = new URL(process.env.SERVER_URL);
  url.pathname = database;
  const pool = new pg.Pool({ connectionString: url.href, max: 2, idleTimeoutMillis: 0 });
  pools.set(database, pool);
  return pool;
}

const app = Fastify();
app.post('/:database/query', async (request) => {
  const { query, params } = request.body;
  const result = await poolOf(request.params.database).query(query, params);
  return {
    ok: true,
    columns: result.fields.map(({ name }) => name),
    rows: result.rows,
    row_count: result.rows.length,
  };
});
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
console.log('ready');
process.on('SIGTERM', () => process.exit(0));
