// What a route does not declare keeps the service from starting.
import Fastify, { type FastifyContextConfig, type FastifySchema } from 'fastify';
import { expect, it } from 'vitest';
import type { Deps } from '../../src/http/deps.ts';
import { writeAuditEntries } from '../../src/http/request/audit-entries.ts';
import { authorizeByRole } from '../../src/http/request/authorize.ts';
import { registerOpenApi } from '../../src/http/routes/openapi.ts';

type Declared = { config: FastifyContextConfig; schema: FastifySchema };
const whole: Declared = {
  config: { action: 'projects.manage', audit: null },
  schema: { operationId: 'mendProject', summary: 'Mend a project' },
};

/** The start of a service with these routes. */
async function start(...routes: (Declared & { method?: 'GET' | 'POST' })[]): Promise<void> {
  const app = Fastify();
  await registerOpenApi(app, '0.0.0');
  authorizeByRole(app, {} as Deps['rates']);
  writeAuditEntries(app, {} as Deps);
  routes.forEach((route, index) => {
    app.route({ method: 'POST', url: `/mend/${index}`, handler: async () => ({}), ...route });
  });
  try {
    await app.ready();
  } finally {
    await app.close();
  }
}

it('a service starts with routes that declare everything, and with hidden ones', async () => {
  await start(whole, { ...whole, schema: { hide: true } });
});

it.each<[string, RegExp, Declared[]]>([
  ['no action', /POST \/mend\/0 names no action/, [{ ...whole, config: { audit: null } }]],
  [
    'no word about the audit log',
    /POST \/mend\/0 does not declare what the audit log records/,
    [{ ...whole, config: { action: 'projects.manage' } }],
  ],
  [
    'no operation',
    /POST \/mend\/0 declares no operation/,
    [{ ...whole, schema: { summary: 'Mend a project' } }],
  ],
  [
    'no summary',
    /POST \/mend\/0 declares no operation/,
    [{ ...whole, schema: { operationId: 'mendProject' } }],
  ],
  ['the operation of another route', /Two routes are declared as mendProject/, [whole, whole]],
])('it does not start with a route that declares %s', async (_what, message, routes) => {
  await expect(start(...routes)).rejects.toThrow(message);
});

it('a route that only reads need not mention the audit log', async () => {
  await start({ ...whole, method: 'GET', config: { action: 'projects.read' } });
});
