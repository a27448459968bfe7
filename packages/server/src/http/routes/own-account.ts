// The caller's own account over HTTP, and its keys.
import {
  AccountKeyResponse,
  AccountKeysResponse,
  AccountResponse,
  ChangeOwnAccount,
  IssueAccountKey,
  IssuedAccountKeyResponse,
  OwnAccountResponse,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { changeAccount, getAccount } from '../../access/accounts/accounts.ts';
import { issueAccountKey, listAccountKeys, revokeAccountKey } from '../../keys/account-keys.ts';
import { requireAccount } from '../../keys/caller.ts';
import type { Deps } from '../deps.ts';
import { createdKey } from '../request/audit-entries.ts';
import { callerOf } from '../request/caller.ts';

const KeyParams = Type.Object({ id: Type.String({ description: "The key's id." }) });

export function ownAccountRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['account'];
  const accountOf = (request: FastifyRequest) => requireAccount(callerOf(request), 'manage the account');

  app.get(
    '/account',
    {
      config: { action: 'account.read' },
      schema: {
        operationId: 'getOwnAccount',
        tags,
        summary: 'Get your account',
        description: 'Requires an account key.',
        response: { 200: OwnAccountResponse },
      },
    },
    async (request): Promise<OwnAccountResponse> => {
      const { accountId, role } = accountOf(request);
      return { ok: true, account: await getAccount(deps, accountId), role };
    },
  );

  app.patch<{ Body: ChangeOwnAccount }>(
    '/account',
    {
      config: {
        action: 'account.manage',
        audit: { action: 'account.change', fields: ['name', 'requires_second_factor'] },
        fails: ['second_factor_required', 'conflict'],
      },
      schema: {
        operationId: 'changeOwnAccount',
        tags,
        summary: 'Change your account',
        body: ChangeOwnAccount,
        description: 'Requires the role admin. Limits are changed by the operator.',
        response: { 200: AccountResponse },
      },
    },
    async (request): Promise<AccountResponse> => ({
      ok: true,
      account: await changeAccount(deps, accountOf(request).accountId, request.body),
    }),
  );

  app.get(
    '/account/keys',
    {
      config: { action: 'account.manage' },
      schema: {
        operationId: 'listAccountKeys',
        tags,
        summary: "List the account's keys",
        description: 'Requires the role admin.',
        response: { 200: AccountKeysResponse },
      },
    },
    async (request): Promise<AccountKeysResponse> => ({
      ok: true,
      keys: await listAccountKeys(deps, accountOf(request).accountId),
    }),
  );

  app.post<{ Body: IssueAccountKey }>(
    '/account/keys',
    {
      config: {
        action: 'account.manage',
        showsSecret: true,
        audit: {
          action: 'account_key.issue',
          fields: ['name', 'role', 'expires_at'],
          made: createdKey,
        },
        fails: ['conflict'],
      },
      schema: {
        operationId: 'issueAccountKey',
        tags,
        summary: 'Issue an account key',
        description:
          'Requires the role admin. The key gets a role that is at most that of the caller. The response contains the key, which is shown only once.',
        body: IssueAccountKey,
        response: { 201: IssuedAccountKeyResponse },
      },
    },
    async (request, reply): Promise<IssuedAccountKeyResponse> => {
      const caller = accountOf(request);
      const { key, apiKey } = await issueAccountKey(deps, caller, request.body, caller);
      reply.status(201);
      return { ok: true, key, api_key: apiKey };
    },
  );

  app.delete<{ Params: { id: string } }>(
    '/account/keys/:id',
    {
      config: {
        action: 'account.manage',
        audit: { action: 'account_key.revoke' },
        fails: ['key_not_found', 'conflict'],
      },
      schema: {
        operationId: 'revokeAccountKey',
        tags,
        summary: 'Revoke an account key',
        params: KeyParams,
        description: 'Requires the role admin, and at least the role of the key. It ends within a second.',
        response: { 200: AccountKeyResponse },
      },
    },
    async (request): Promise<AccountKeyResponse> => ({
      ok: true,
      key: await revokeAccountKey(deps, accountOf(request), request.params.id),
    }),
  );
}
