// Sessions of end users over HTTP, for keys with the scope manage.
import { SignedOutResponse, UserSessionsResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { endUserSessions, listUserSessions } from '../../../access/end-users/manage-sessions.ts';
import { userFailures } from '../../../openapi/failure-sets.ts';
import type { Deps } from '../../deps.ts';
import { SlugParams } from '../projects.ts';
import { authBase, authContextOf } from './auth-context.ts';

type Params = { slug: string; id: string };
const Params = Type.Object({
  ...SlugParams.properties,
  id: Type.String({ description: "The user's id." }),
});
const OneParams = Type.Object({
  ...Params.properties,
  session: Type.String({ description: 'The id in the list.' }),
});

export function userSessionRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['users'];
  const path = `${authBase}/users/:id/sessions`;

  app.get<{ Params: Params }>(
    path,
    {
      config: { action: 'projects.read', fails: [...userFailures, 'user_not_found'] },
      schema: {
        operationId: 'listUserSessions',
        tags,
        summary: "List a user's sessions",
        description: 'Requires the scope manage. Newest first, without those that have ended.',
        params: Params,
        response: { 200: UserSessionsResponse },
      },
    },
    async (request): Promise<UserSessionsResponse> => {
      const context = await authContextOf(deps, request, 'manage');
      return { ok: true, sessions: await listUserSessions(deps.users, context, request.params.id) };
    },
  );

  app.delete<{ Params: Params }>(
    path,
    {
      config: { action: 'projects.write', audit: null, fails: [...userFailures, 'user_not_found'] },
      schema: {
        operationId: 'endUserSessions',
        tags,
        summary: "End all of a user's sessions",
        description:
          'Requires the scope manage. Their tokens stop working at once. The user can sign in again.',
        params: Params,
        response: { 200: SignedOutResponse },
      },
    },
    async (request): Promise<SignedOutResponse> => {
      const context = await authContextOf(deps, request, 'manage');
      return { ok: true, ended: await endUserSessions(deps.users, context, request.params.id, null) };
    },
  );

  app.delete<{ Params: Params & { session: string } }>(
    `${path}/:session`,
    {
      config: {
        action: 'projects.write',
        audit: null,
        fails: [...userFailures, 'user_not_found', 'session_not_found'],
      },
      schema: {
        operationId: 'endUserSession',
        tags,
        summary: "End one of a user's sessions",
        description: 'Requires the scope manage. Its tokens stop working at once.',
        params: OneParams,
        response: { 200: SignedOutResponse },
      },
    },
    async (request): Promise<SignedOutResponse> => {
      const context = await authContextOf(deps, request, 'manage');
      const { id, session } = request.params;
      return { ok: true, ended: await endUserSessions(deps.users, context, id, session) };
    },
  );
}
