// Wire types of the health endpoints.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

export const apiPrefix = '/api/dbaas/v2';

export const HealthResponse = success({ version: Type.String(), uptime_s: Type.Number() });
export const ReadyResponse = success({
  version: Type.String(),
  postgres: Type.String({ description: 'The version of the PostgreSQL server.', examples: ['18.4'] }),
});

export type HealthResponse = Static<typeof HealthResponse>;
export type ReadyResponse = Static<typeof ReadyResponse>;
