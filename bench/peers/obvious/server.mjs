// The obvious program: fastify, a pg pool of 10, JSON.stringify. No key, no isolation, no reset, no limits.
import Fastify from 'fastify';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const app = Fastify();
app.post('/query', async (request) => {
  const { query, params } = request.body;
  const result = await pool.query(query, params);
  return {
    ok: true,
    columns: result.fields.map(({ name }) => name),
    rows: result.rows,
    row_count: result.rows.length,
  };
});
app.get('/items', async () => {
  const result = await pool.query(
    'select id, name, price, in_stock, tags, created_at from items order by id limit 51',
  );
  const rows = result.rows.slice(0, 50);
  return {
    ok: true,
    columns: result.fields.map(({ name }) => name),
    rows,
    has_more: result.rows.length > 50,
  };
});
app.post('/sales', async (request, reply) => {
  const { item, note } = request.body;
  const result = await pool.query(
    'insert into sales (item, note) values ($1, $2) returning id, item, note, at',
    [item, note],
  );
  reply.code(201);
  return { ok: true, row: result.rows[0] };
});
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
console.log('ready');
process.on('SIGTERM', () => process.exit(0));
