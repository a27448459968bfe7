// Acting as an end user over HTTP, for keys with the scope manage.
import { ActAs, ActAsResponse, ActingResponse, ListActing } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { actAs, anonymousId, endActing, listActing } from '../../../access/end-users/act-as.ts';
import { userFailures } from '../../../openapi/failure-sets.ts';
import type { Deps } from '../../deps.ts';
import { callerOf } from '../../request/caller.ts';
import { SlugParams } from '../projects.ts';
import { authBase, authContextOf } from './auth-context.ts';

type Params = { slug: string };
type IdParams = Params & { id: string };
const idParams = (description: string) =>
  Type.Object({ ...SlugParams.properties, id: Type.String({ description }) });
const Ended = Type.Object({ ok: Type.Literal(true) }, { additionalProperties: false });

export function actAsRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['users'];

  app.post<{ Params: IdParams; Body: ActAs | undefined }>(
    `${authBase}/users/:id/act-as`,
    {
      config: {
        action: 'projects.manage',
        audit: { action: 'user.act_as' },
        fails: [...userFailures, 'user_not_found'],
      },
      schema: {
        operationId: 'actAsUser',
        tags,
        summary: 'Act as a user',
        description:
          'Requires the scope manage. Returns a token for …/query, …/batch and …/tables/:table, which then run as this user, under row security. It is valid for at most 15 minutes and only with the API key of this request. It is recorded, and it ends when the user is banned or deleted. No endpoint for users accepts it.',
        params: idParams(`The user's id, or "${anonymousId}".`),
        body: ActAs,
        response: { 201: ActAsResponse },
      },
    },
    async (request, reply): Promise<ActAsResponse> => {
      const context = await authContextOf(deps, request, 'manage');
      const caller = callerOf(request);
      const issued = await actAs(deps.users, context, caller, request.params.id, request.body ?? {});
      reply.status(201);
      return { ok: true, ...issued };
    },
  );

  app.get<{ Params: Params; Querystring: ListActing }>(
    `${authBase}/act-as`,
    {
      config: { action: 'projects.manage', fails: userFailures },
      schema: {
        operationId: 'listActingSessions',
        tags,
        summary: 'List who acted as which user',
        description: 'Requires the scope manage.',
        params: SlugParams,
        querystring: ListActing,
        response: { 200: ActingResponse },
      },
    },
    async (request): Promise<ActingResponse> => {
      const context = await authContextOf(deps, request, 'manage');
      return { ok: true, ...(await listActing(deps.users, context, request.query)) };
    },
  );

  app.delete<{ Params: IdParams }>(
    `${authBase}/act-as/:id`,
    {
      config: { action: 'projects.manage', audit: null, fails: [...userFailures, 'user_not_found'] },
      schema: {
        operationId: 'stopActing',
        tags,
        summary: 'Stop acting as a user',
        description: 'Requires the scope manage. Ends the token at once.',
        params: idParams('The id in the list.'),
        response: { 200: Ended },
      },
    },
    async (request): Promise<{ ok: true }> => {
      const context = await authContextOf(deps, request, 'manage');
      await endActing(deps.users, context, request.params.id);
      return { ok: true };
    },
  );
}
