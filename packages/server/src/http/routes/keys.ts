// A project's API keys over HTTP.
import {
  IssuedKeyResponse,
  IssueKey,
  KeyResponse,
  KeysResponse,
  RotatedKeyResponse,
  RotateKey,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { requireScope, requireWhole } from '../../keys/caller.ts';
import { issueKey, listKeys, revokeKey, rotateKey } from '../../keys/manage.ts';
import { getProjectRow } from '../../projects/find.ts';
import type { Deps } from '../deps.ts';
import { createdKey } from '../request/audit-entries.ts';
import { callerOf } from '../request/caller.ts';
import { SlugParams } from './projects.ts';

type Params = { slug: string };
const KeyParams = Type.Object({
  ...SlugParams.properties,
  id: Type.String({ description: "The key's id." }),
});

export function keyRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['keys'];
  const managed = async (request: FastifyRequest<{ Params: Params }>) => {
    const caller = callerOf(request);
    const row = await getProjectRow(deps.control, caller, request.params.slug);
    requireScope(caller, 'manage');
    return { id: row.id, accountId: row.account_id };
  };

  app.get<{ Params: Params }>(
    '/projects/:slug/keys',
    {
      config: { action: 'projects.manage' },
      schema: {
        operationId: 'listKeys',
        tags,
        summary: "List a project's keys",
        params: SlugParams,
        response: { 200: KeysResponse },
      },
    },
    async (request): Promise<KeysResponse> => {
      const project = await managed(request);
      return { ok: true, keys: await listKeys(deps, project.id, callerOf(request)) };
    },
  );

  app.post<{ Params: Params; Body: IssueKey }>(
    '/projects/:slug/keys',
    {
      config: {
        action: 'projects.manage',
        showsSecret: true,
        audit: { action: 'key.issue', fields: ['name', 'kind', 'scopes'], made: createdKey },
        fails: ['conflict'],
      },
      schema: {
        operationId: 'issueKey',
        tags,
        summary: 'Issue a key',
        description:
          'A scoped key, optionally limited to some tables and with an expiry, or a publishable key. The response contains the key, which is shown only once.',
        params: SlugParams,
        body: IssueKey,
        response: { 201: IssuedKeyResponse },
      },
    },
    async (request, reply): Promise<IssuedKeyResponse> => {
      const project = await managed(request);
      const { key, apiKey } = await issueKey(deps, project, callerOf(request), request.body);
      reply.status(201);
      return { ok: true, key, api_key: apiKey };
    },
  );

  app.delete<{ Params: Params & { id: string } }>(
    '/projects/:slug/keys/:id',
    {
      config: {
        action: 'projects.manage',
        audit: { action: 'key.revoke' },
        fails: ['key_not_found', 'conflict'],
      },
      schema: {
        operationId: 'revokeKey',
        tags,
        summary: 'Revoke a key',
        description: 'The key stops working within a second, in every process.',
        params: KeyParams,
        response: { 200: KeyResponse },
      },
    },
    async (request): Promise<KeyResponse> => {
      const project = await managed(request);
      return { ok: true, key: await revokeKey(deps, project.id, request.params.id, callerOf(request)) };
    },
  );

  app.post<{ Params: Params; Body: RotateKey }>(
    '/projects/:slug/keys/rotate',
    {
      // A rotated key must not reveal its successor, not even through a repeated request.
      config: {
        action: 'projects.manage',
        showsSecret: true,
        beforeReplay: (request) => requireWhole(callerOf(request), 'read the response of a rotation again'),
        audit: { action: 'key.rotate', fields: ['grace_seconds'], made: createdKey },
      },
      schema: {
        operationId: 'rotateKey',
        tags,
        summary: 'Rotate the project key',
        description:
          'Replaces the project key. The old key, and the tokens of users that it signed, stay valid during the grace period.',
        params: SlugParams,
        body: RotateKey,
        response: { 200: RotatedKeyResponse },
      },
    },
    async (request): Promise<RotatedKeyResponse> => {
      const project = await managed(request);
      requireWhole(callerOf(request), 'rotate the project key');
      const { key, apiKey, previous } = await rotateKey(deps, project.id, callerOf(request), request.body);
      return { ok: true, key, api_key: apiKey, previous };
    },
  );
}
