// The obvious program: fastify, a pg pool of 10, JSON.stringify. No key, no isolation, no reset, no limits. Statements have
// parameters and no names, as most programs send them. For users it does what row security needs (users.mjs), and what
// repeated requests need (repeats.mjs); both only where a request asks for it. Under /browser the same routes answer
// pages of other origins.
import cors from '@fastify/cors';
import Fastify from 'fastify';
import pg from 'pg';
import { once } from './repeats.mjs';
import { asUser } from './users.mjs';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });

function answer({ fields, rows }) {
  return { ok: true, columns: fields.map(({ name }) => name), rows, row_count: rows.length };
}

function routes(app) {
  app.post('/query', async (request) => {
    const { query, params } = request.body;
    return answer(await pool.query(query, params));
  });
  app.post('/batch', async (request) => {
    const client = await pool.connect();
    try {
      const results = [];
      await client.query('begin');
      for (const { query, params } of request.body.statements)
        results.push(answer(await client.query(query, params)));
      await client.query('commit');
      return { ok: true, results };
    } catch (error) {
      await client.query('rollback');
      throw error;
    } finally {
      client.release();
    }
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
  for (const table of ['items', 'guarded']) {
    app.get(`/${table}/:id`, async (request) => {
      return answer(await pool.query(`select * from ${table} where id = $1`, [request.params.id]));
    });
  }
  app.patch('/stock/:id', async (request) => {
    const { price } = request.body;
    const text = 'update stock set price = $2 where id = $1 returning *';
    return answer(await pool.query(text, [request.params.id, price]));
  });
  app.post('/sales', async (request, reply) => {
    const { item, note } = request.body;
    const insert = async (db) => {
      const text = 'insert into sales (item, note) values ($1, $2) returning id, item, note, at';
      const { rows } = await db.query(text, [item, note]);
      return { ok: true, row: rows[0] };
    };
    const key = request.headers['idempotency-key'];
    reply.code(201);
    return key === undefined ? insert(pool) : once(pool, key, insert);
  });
  for (const table of ['notes', 'team_notes']) {
    const select = (request, id) =>
      asUser(pool, request, (db) => db.query(`select * from ${table} where id = $1`, [id]));
    app.get(`/${table}/:id`, async (request) => answer(await select(request, request.params.id)));
    // What the TypeScript client sends: ?and=("id".eq."5").
    app.get(`/api/dbaas/v2/projects/:project/tables/${table}`, async (request) =>
      answer(await select(request, /\d+/.exec(request.query.and)[0])),
    );
  }
  app.post('/diary', async (request, reply) => {
    const text = 'insert into diary (title) values ($1) returning *';
    const { rows } = await asUser(pool, request, (db) => db.query(text, [request.body.title]));
    reply.code(201);
    return { ok: true, row: rows[0] };
  });
}

const app = Fastify();
routes(app);
await app.register(
  async (scope) => {
    await scope.register(cors);
    routes(scope);
  },
  { prefix: '/browser' },
);
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
console.log('ready');
process.on('SIGTERM', () => process.exit(0));
