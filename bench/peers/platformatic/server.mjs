// Its REST interface over the tables that are there, in one process; a pool of 10, which is its default.
import platformatic from '@platformatic/db';

const app = await platformatic.buildServer({
  server: { hostname: '127.0.0.1', port: Number(process.env.PORT), logger: { level: 'error' } },
  db: {
    connectionString: process.env.DATABASE_URL,
    openapi: true,
    graphql: false,
    events: false,
    limit: { default: 50, max: 10_000 },
  },
  watch: false,
});
await app.start();
process.on('SIGTERM', () => process.exit(0));
