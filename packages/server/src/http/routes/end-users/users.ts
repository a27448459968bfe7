// Administration of end users over HTTP, for keys with the scope manage.
import {
  ChangeUser,
  ChangeUserSettings,
  CreateUser,
  ListUsers,
  UserResponse,
  UserSettingsResponse,
  UsersResponse,
} from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { changeUser, createUser, deleteUser, getUser, listUsers } from '../../../access/end-users/manage.ts';
import { changeSettings, getSettings } from '../../../access/end-users/settings.ts';
import { userFailures } from '../../../openapi/failure-sets.ts';
import type { Deps } from '../../deps.ts';
import { SlugParams } from '../projects.ts';
import { answerJson, authBase, authContextOf, deletionNote } from './auth-context.ts';

type Params = { slug: string };
type UserParams = Params & { id: string };
const UserParams = Type.Object({
  ...SlugParams.properties,
  id: Type.String({ description: "The user's id." }),
});

const managing = 'Requires the scope manage.';

export function userRoutes(app: FastifyInstance, deps: Deps): void {
  const { users } = deps;
  const tags = ['users'];
  const params = SlugParams;
  // Numbers in the attributes of users keep all digits.
  const config = { numbers: 'values' } as const;

  app.get<{ Params: Params; Querystring: ListUsers }>(
    `${authBase}/users`,
    {
      config: { action: 'projects.read', fails: userFailures },
      schema: {
        operationId: 'listUsers',
        tags,
        summary: 'List users',
        description: `${managing} Newest first.`,
        params,
        querystring: ListUsers,
        response: { 200: UsersResponse },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'manage');
      return answerJson(reply, await listUsers(users, context, request.query));
    },
  );

  app.post<{ Params: Params; Body: CreateUser }>(
    `${authBase}/users`,
    {
      config: { ...config, action: 'projects.write', audit: null, fails: [...userFailures, 'email_taken'] },
      schema: {
        operationId: 'createUser',
        tags,
        summary: 'Create a user',
        description: `${managing} Does not create a session. A user without a password sets one with a recovery code.`,
        params,
        body: CreateUser,
        response: { 201: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'manage');
      return answerJson(reply.status(201), { user: await createUser(users, context, request.body) });
    },
  );

  app.get<{ Params: UserParams }>(
    `${authBase}/users/:id`,
    {
      config: { action: 'projects.read', fails: [...userFailures, 'user_not_found'] },
      schema: {
        operationId: 'getUser',
        tags,
        summary: 'Get a user',
        description: managing,
        params: UserParams,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'manage');
      return answerJson(reply, { user: await getUser(users, context, request.params.id) });
    },
  );

  app.patch<{ Params: UserParams; Body: ChangeUser }>(
    `${authBase}/users/:id`,
    {
      config: {
        ...config,
        action: 'projects.write',
        audit: null,
        fails: [...userFailures, 'user_not_found', 'email_taken'],
      },
      schema: {
        operationId: 'changeUser',
        tags,
        summary: 'Change a user, ban it, or set its password',
        description: `${managing} A new password and a ban end all sessions of the user at once.`,
        params: UserParams,
        body: ChangeUser,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'manage');
      return answerJson(reply, { user: await changeUser(users, context, request.params.id, request.body) });
    },
  );

  app.delete<{ Params: UserParams }>(
    `${authBase}/users/:id`,
    {
      config: {
        action: 'projects.write',
        audit: { action: 'user.delete' },
        fails: [...userFailures, 'user_not_found'],
      },
      schema: {
        operationId: 'deleteUser',
        tags,
        summary: 'Delete a user',
        description: `${managing} ${deletionNote}`,
        params: UserParams,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'manage');
      return answerJson(reply, { user: await deleteUser(users, context, request.params.id) });
    },
  );

  app.get<{ Params: Params }>(
    `${authBase}/settings`,
    {
      config: { action: 'projects.read', fails: userFailures },
      schema: {
        operationId: 'getUserSettings',
        tags,
        summary: 'Get the user settings',
        description: managing,
        params,
        response: { 200: UserSettingsResponse },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'manage');
      return answerJson(reply, { settings: await getSettings(users, context) });
    },
  );

  app.patch<{ Params: Params; Body: ChangeUserSettings }>(
    `${authBase}/settings`,
    {
      config: { action: 'projects.write', audit: { action: 'project.auth_settings' }, fails: userFailures },
      schema: {
        operationId: 'changeUserSettings',
        tags,
        summary: 'Change the user settings',
        description: managing,
        params,
        body: ChangeUserSettings,
        response: { 200: UserSettingsResponse },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'manage');
      return answerJson(reply, { settings: await changeSettings(users, context, request.body) });
    },
  );
}
