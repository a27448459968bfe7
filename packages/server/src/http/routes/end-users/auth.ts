// Self-service of end users over HTTP: sign-up, sign-in, sessions, and the signed-in user.
import {
  ChangeOwnUser,
  CodeResponse,
  Recover,
  Refresh,
  SignedInResponse,
  SignedOutResponse,
  SignIn,
  SignOut,
  SignUp,
  UserResponse,
  Verify,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Claims } from '../../../access/end-users/access-tokens.ts';
import type { AuthContext } from '../../../access/end-users/auth-context.ts';
import { recover, verify } from '../../../access/end-users/codes.ts';
import { changeOwnUser, deleteOwnUser, getOwnUser } from '../../../access/end-users/self.ts';
import { refresh, signOut } from '../../../access/end-users/sessions.ts';
import { signIn, signUp } from '../../../access/end-users/sign-in.ts';
import { errors } from '../../../errors/errors.ts';
import { userFailures } from '../../../openapi/failure-sets.ts';
import type { Deps } from '../../deps.ts';
import { SlugParams } from '../projects.ts';
import { answerJson, authBase, authContextOf, deletionNote } from './auth-context.ts';

type Params = { slug: string };

export function authRoutes(app: FastifyInstance, deps: Deps): void {
  const { users } = deps;
  const tags = ['users'];
  const params = SlugParams;
  // Numbers in the attributes of users keep all digits.
  const config = { numbers: 'values' } as const;
  const withToken = { ...config, acceptsToken: true, needsToken: true };

  const signedIn = async (request: FastifyRequest): Promise<{ context: AuthContext; claims: Claims }> => {
    const context = await authContextOf(deps, request, 'auth');
    if (request.accessToken === null) {
      throw errors.invalidToken(
        "This request requires the user's access token.",
        'Send it as "Authorization: Bearer <ACCESS_TOKEN>", together with "X-API-Key: <API_KEY>".',
      );
    }
    const { claims } = await users.tokens.verify(context, request.accessToken);
    return { context, claims };
  };

  app.post<{ Params: Params; Body: SignUp }>(
    `${authBase}/signup`,
    {
      config: { ...config, action: 'projects.write', audit: null, fails: [...userFailures, 'email_taken'] },
      schema: {
        operationId: 'signUp',
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
      const context = await authContextOf(deps, request, 'auth');
      return answerJson(reply.status(201), await signUp(users, context, request.body));
    },
  );

  app.post<{ Params: Params; Body: SignIn }>(
    `${authBase}/signin`,
    {
      config: { action: 'projects.write', audit: null, fails: [...userFailures, 'invalid_credentials'] },
      schema: {
        operationId: 'signIn',
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
      const context = await authContextOf(deps, request, 'auth');
      return answerJson(reply, await signIn(users, context, request.body));
    },
  );

  app.post<{ Params: Params; Body: Refresh }>(
    `${authBase}/refresh`,
    {
      config: { action: 'projects.write', audit: null, fails: [...userFailures, 'invalid_token'] },
      schema: {
        operationId: 'refreshSession',
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
      const context = await authContextOf(deps, request, 'auth');
      return answerJson(reply, await refresh(users, context, request.body.refresh_token));
    },
  );

  app.post<{ Params: Params; Body: SignOut }>(
    `${authBase}/signout`,
    {
      config: { action: 'projects.write', ...withToken, audit: null, fails: userFailures },
      schema: {
        operationId: 'signOut',
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
      return answerJson(reply, {
        ended: await signOut(users, context, claims, request.body.scope ?? 'this'),
      });
    },
  );

  app.get<{ Params: Params }>(
    `${authBase}/user`,
    {
      config: { action: 'projects.read', ...withToken, fails: userFailures },
      schema: {
        operationId: 'getSignedInUser',
        tags,
        summary: 'Get the signed-in user',
        params,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const { context, claims } = await signedIn(request);
      return answerJson(reply, { user: await getOwnUser(users, context, claims) });
    },
  );

  app.patch<{ Params: Params; Body: ChangeOwnUser }>(
    `${authBase}/user`,
    {
      config: {
        action: 'projects.write',
        ...withToken,
        audit: null,
        fails: [...userFailures, 'email_taken', 'invalid_credentials'],
      },
      schema: {
        operationId: 'changeSignedInUser',
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
      return answerJson(reply, { user: await changeOwnUser(users, context, claims, request.body) });
    },
  );

  app.delete<{ Params: Params }>(
    `${authBase}/user`,
    {
      config: { action: 'projects.write', ...withToken, audit: null, fails: userFailures },
      schema: {
        operationId: 'deleteSignedInUser',
        tags,
        summary: 'Delete the signed-in user',
        description: deletionNote,
        params,
        response: { 200: UserResponse },
      },
    },
    async (request, reply) => {
      const { context, claims } = await signedIn(request);
      return answerJson(reply, { user: await deleteOwnUser(users, context, claims) });
    },
  );

  app.post<{ Params: Params; Body: Recover }>(
    `${authBase}/recover`,
    {
      config: {
        action: 'projects.write',
        audit: null,
        fails: [...userFailures, 'invalid_code', 'user_not_found'],
      },
      schema: {
        operationId: 'recoverUser',
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
      const context = await authContextOf(deps, request, 'auth');
      return answerJson(reply, await recover(users, context, request.body));
    },
  );

  app.post<{ Params: Params; Body: Verify }>(
    `${authBase}/verify`,
    {
      config: {
        action: 'projects.write',
        audit: null,
        fails: [...userFailures, 'invalid_code', 'user_not_found'],
      },
      schema: {
        operationId: 'verifyUser',
        tags,
        summary: 'Request or use a verification code',
        description: 'With email: like recover. With code: marks the email address as verified.',
        params,
        body: Verify,
        response: { 200: Type.Union([CodeResponse, UserResponse]) },
      },
    },
    async (request, reply) => {
      const context = await authContextOf(deps, request, 'auth');
      return answerJson(reply, await verify(users, context, request.body));
    },
  );
}
