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
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
console.log('ready');
process.on('SIGTERM', () => process.exit(0));
