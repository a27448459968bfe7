// End users over HTTP: sign-up, sign-in, what a user does with its token, and administration.
import {
  ChangeOwnUser,
  ChangeUser,
  ChangeUserSettings,
  CodeResponse,
  CreateUser,
  ListUsers,
  Recover,
  Refresh,
  SignedInResponse,
  SignedOutResponse,
  SignIn,
  SignOut,
  SignUp,
  UserResponse,
  UserSettingsResponse,
  UsersResponse,
  Verify,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { errors } from '../errors.ts';
import { mayManage, requireScope } from '../keys/caller.ts';
import { toJsonText } from '../query/json/json-text.ts';
import type { Claims } from '../users/access-tokens.ts';
import { recover, verify } from '../users/codes.ts';
import type { AuthContext } from '../users/deps.ts';
import { changeUser, createUser, deleteUser, getUser, listUsers } from '../users/manage.ts';
import { isAddress } from '../users/rate-limits.ts';
import { changeOwnUser, deleteOwnUser, getOwnUser } from '../users/self.ts';
import { readClaims, refresh, signOut } from '../users/sessions.ts';
import { changeSettings, getSettings } from '../users/settings.ts';
import { signIn, signUp } from '../users/sign-in.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';
import { SlugParams } from './projects.ts';
import { json } from './response-reader.ts';

type Params = { slug: string };
type UserParams = Params & { id: string };
const UserParams = Type.Object({
  ...SlugParams.properties,
  id: Type.String({ description: "The user's id." }),
});

const base = '/projects/:slug/auth';
const managing = 'Needs the scope manage.';
const deletion =
  'Rows that refer to it with on delete cascade go with it; one that does so without is in the way: 409.';

export function userRoutes(app: FastifyInstance, deps: Deps): void {
  const { users } = deps;
  const tags = ['users'];
  const params = SlugParams;
  // Attributes of users keep all their digits.
  const config = { exactNumbers: true };
  const withToken = { ...config, acceptsToken: true, needsToken: true };

  const doorOf = async (request: FastifyRequest, scope: 'auth' | 'manage'): Promise<AuthContext> => {
    const caller = callerOf(request);
    const { slug } = request.params as Params;
    const { id, passwordVersion } = await deps.logins.of(caller, slug);
    requireScope(caller, scope);
    return {
      projectId: id,
      passwordVersion,
      slug,
      isPublic: caller.kind === 'publishable',
      mayManage: mayManage(caller),
      address: addressOf(request, caller.kind === 'publishable'),
    };
  };
  const signedIn = async (request: FastifyRequest): Promise<{ context: AuthContext; claims: Claims }> => {
    const context = await doorOf(request, 'auth');
    if (request.accessToken === null) {
      throw errors.invalidToken(
        "This request needs the user's access token.",
        'Send it as "Authorization: Bearer <ACCESS_TOKEN>" beside "X-API-Key: <API_KEY>".',
      );
    }
    return { context, claims: await readClaims(users, context, request.accessToken) };
  };

  app.post<{ Params: Params; Body: SignUp }>(
    `${base}/signup`,
    {
      config,
      schema: {
        tags,
        summary: 'Sign up a user',
        description:
          'Gives a session at once. A key that may manage the project can give a role with data.role; a publishable one that tries gets 403.',
        params,
        body: SignUp,
        response: { 201: SignedInResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'auth');
      return answer(reply.status(201), await signUp(users, context, request.body));
    },
  );

  app.post<{ Params: Params; Body: SignIn }>(
    `${base}/signin`,
    {
      schema: {
        tags,
        summary: 'Sign in',
        description:
          'A wrong e-mail and a wrong password get one answer. Too many of them: 429. A key that is not publishable may send the address of the user it calls for as X-Client-Address.',
        params,
        body: SignIn,
        response: { 200: SignedInResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'auth');
      return answer(reply, await signIn(users, context, request.body));
    },
  );

  app.post<{ Params: Params; Body: Refresh }>(
    `${base}/refresh`,
    {
      schema: {
        tags,
        summary: 'A new access token for a refresh token',
        description:
          'Each refresh token works once; the answer holds the next. One that comes again later ends the session.',
        params,
        body: Refresh,
        response: { 200: SignedInResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'auth');
      return answer(reply, await refresh(users, context, request.body.refresh_token));
    },
  );

  app.post<{ Params: Params; Body: SignOut }>(
    `${base}/signout`,
    {
      config: withToken,
      schema: {
        tags,
        summary: 'Sign out',
        description: "Needs the user's access token. Tokens of an ended session stop working at once.",
        params,
        body: SignOut,
        response: { 200: SignedOutResponse },
      },
    },
    async (request, reply) => {
      const { context, claims } = await signedIn(request);
      return answer(reply, { ended: await signOut(users, context, claims, request.body.scope ?? 'this') });
    },
  );

  app.get<{ Params: Params }>(
    `${base}/user`,
    {
      config: withToken,
      schema: {
        tags,
        summary: 'The user whose token this is',
        params,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const { context, claims } = await signedIn(request);
      return answer(reply, { user: await getOwnUser(users, context, claims) });
    },
  );

  app.patch<{ Params: Params; Body: ChangeOwnUser }>(
    `${base}/user`,
    {
      config: withToken,
      schema: {
        tags,
        summary: 'Change the user whose token this is',
        description:
          'data is laid over what is there, name by name; null takes a name away. A new password needs current_password and ends all other sessions; a new e-mail is not verified.',
        params,
        body: ChangeOwnUser,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const { context, claims } = await signedIn(request);
      return answer(reply, { user: await changeOwnUser(users, context, claims, request.body) });
    },
  );

  app.delete<{ Params: Params }>(
    `${base}/user`,
    {
      config: withToken,
      schema: {
        tags,
        summary: 'Delete the user whose token this is',
        description: deletion,
        params,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const { context, claims } = await signedIn(request);
      return answer(reply, { user: await deleteOwnUser(users, context, claims) });
    },
  );

  app.post<{ Params: Params; Body: Recover }>(
    `${base}/recover`,
    {
      schema: {
        tags,
        summary: 'Ask for a recovery code, or use one',
        description:
          'With email: a key that may manage gets the code, for others it is sent. With code and password: the password is set, all sessions end, and a new one begins.',
        params,
        body: Recover,
        response: { 200: Type.Union([CodeResponse, SignedInResponse]) },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'auth');
      return answer(reply, await recover(users, context, request.body));
    },
  );

  app.post<{ Params: Params; Body: Verify }>(
    `${base}/verify`,
    {
      schema: {
        tags,
        summary: 'Ask for a verification code, or use one',
        description: 'With email: as with recover. With code: the e-mail counts as verified.',
        params,
        body: Verify,
        response: { 200: Type.Union([CodeResponse, UserResponse]) },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'auth');
      return answer(reply, await verify(users, context, request.body));
    },
  );

  app.get<{ Params: Params; Querystring: ListUsers }>(
    `${base}/users`,
    {
      schema: {
        tags,
        summary: 'List users',
        description: `${managing} Newest first.`,
        params,
        querystring: ListUsers,
        response: { 200: UsersResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'manage');
      return answer(reply, await listUsers(users, context, request.query));
    },
  );

  app.post<{ Params: Params; Body: CreateUser }>(
    `${base}/users`,
    {
      config,
      schema: {
        tags,
        summary: 'Create a user',
        description: `${managing} Without a session. Without a password, the user gets one by a recovery code.`,
        params,
        body: CreateUser,
        response: { 201: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'manage');
      return answer(reply.status(201), { user: await createUser(users, context, request.body) });
    },
  );

  app.get<{ Params: UserParams }>(
    `${base}/users/:id`,
    {
      schema: {
        tags,
        summary: 'A user',
        description: managing,
        params: UserParams,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'manage');
      return answer(reply, { user: await getUser(users, context, request.params.id) });
    },
  );

  app.patch<{ Params: UserParams; Body: ChangeUser }>(
    `${base}/users/:id`,
    {
      config,
      schema: {
        tags,
        summary: 'Change a user, ban one, set a password',
        description: `${managing} A new password and a ban end all sessions of the user at once.`,
        params: UserParams,
        body: ChangeUser,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'manage');
      return answer(reply, { user: await changeUser(users, context, request.params.id, request.body) });
    },
  );

  app.delete<{ Params: UserParams }>(
    `${base}/users/:id`,
    {
      schema: {
        tags,
        summary: 'Delete a user',
        description: `${managing} ${deletion}`,
        params: UserParams,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'manage');
      return answer(reply, { user: await deleteUser(users, context, request.params.id) });
    },
  );

  app.get<{ Params: Params }>(
    `${base}/settings`,
    {
      schema: {
        tags,
        summary: 'Settings about users',
        description: managing,
        params,
        response: { 200: UserSettingsResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'manage');
      return answer(reply, { settings: await getSettings(users, context) });
    },
  );

  app.patch<{ Params: Params; Body: ChangeUserSettings }>(
    `${base}/settings`,
    {
      schema: {
        tags,
        summary: 'Change settings about users',
        description: managing,
        params,
        body: ChangeUserSettings,
        response: { 200: UserSettingsResponse },
      },
    },
    async (request, reply) => {
      const context = await doorOf(request, 'manage');
      return answer(reply, { settings: await changeSettings(users, context, request.body) });
    },
  );
}

/** An application's server calls for all its users from one address; it may say whose request it passes on. */
function addressOf({ ip, headers }: FastifyRequest, isPublic: boolean): string | null {
  if (isPublic) return ip;
  const given = headers['x-client-address'];
  if (given === undefined) return null;
  if (typeof given === 'string' && isAddress(given)) return given;
  throw errors.invalidRequest(
    [{ path: 'X-Client-Address', problem: 'must be one IPv4 or IPv6 address' }],
    "Send the address of the user's browser, or leave the header out.",
  );
}

/** `data` can hold numbers that only toJsonText writes as they are. */
function answer(reply: FastifyReply, fields: object): FastifyReply {
  return reply.header('content-type', json).send(toJsonText({ ok: true, ...fields }));
}
