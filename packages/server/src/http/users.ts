// End users over HTTP: sign-up, sign-in, self-service with an access token, and administration.
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
const managing = 'Requires the scope manage.';
const deletion =
  'Rows that reference the user with "on delete cascade" are deleted too. Other rows that reference it prevent the deletion: 409.';

export function userRoutes(app: FastifyInstance, deps: Deps): void {
  const { users } = deps;
  const tags = ['users'];
  const params = SlugParams;
  // Numbers in the attributes of users keep all digits.
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
        "This request requires the user's access token.",
        'Send it as "Authorization: Bearer <ACCESS_TOKEN>", together with "X-API-Key: <API_KEY>".',
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
          'Creates the user and a session. A key with the scope manage can set a role with data.role; a publishable key that does so gets 403.',
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
          'A wrong email address and a wrong password get the same error. Too many failed attempts get 429. A secret key can send the IP address of the user in X-Client-Address.',
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
        summary: 'Exchange a refresh token for a new access token',
        description:
          'Each refresh token works once; the response contains the next one. Using an old one again ends the session.',
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
        description: "Requires the user's access token. The tokens of an ended session stop working at once.",
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
        summary: 'Get the signed-in user',
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
        summary: 'Change the signed-in user',
        description:
          'data is merged into the existing attributes; null removes an attribute. A new password requires current_password and ends all other sessions. A new email address is unverified.',
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
        summary: 'Delete the signed-in user',
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
        summary: 'Request or use a recovery code',
        description:
          'With email: a key with the scope manage gets the code; for other keys, it is sent to the user. With code and password: sets the password, ends all sessions and starts a new one.',
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
        summary: 'Request or use a verification code',
        description: 'With email: like recover. With code: marks the email address as verified.',
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
        description: `${managing} Does not create a session. A user without a password sets one with a recovery code.`,
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
        summary: 'Get a user',
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
        summary: 'Change a user, ban it, or set its password',
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
        summary: 'Get the user settings',
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
        summary: 'Change the user settings',
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

/** The server of an application sends the requests of all its users from one address. It can name the user's address. */
function addressOf({ ip, headers }: FastifyRequest, isPublic: boolean): string | null {
  if (isPublic) return ip;
  const given = headers['x-client-address'];
  if (given === undefined) return null;
  if (typeof given === 'string' && isAddress(given)) return given;
  throw errors.invalidRequest(
    [{ path: 'X-Client-Address', problem: 'must be one IPv4 or IPv6 address' }],
    "Send the address of the user's browser, or omit the header.",
  );
}

/** `data` can contain numbers that only toJsonText writes with all digits. */
function answer(reply: FastifyReply, fields: object): FastifyReply {
  return reply.header('content-type', json).send(toJsonText({ ok: true, ...fields }));
}
