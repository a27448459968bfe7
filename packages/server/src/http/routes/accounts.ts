// Accounts over HTTP, for the operator.
import {
  AccountResponse,
  AccountsResponse,
  ChangeAccount,
  CreateAccount,
  CreatedAccountResponse,
  IssueAccountKey,
  IssuedAccountKeyResponse,
  ListAccounts,
} from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import {
  changeAccount,
  createAccount,
  deleteAccount,
  getAccount,
  listAccounts,
  undeleteAccount,
} from '../../access/accounts/accounts.ts';
import { closeProjects, projectsOf } from '../../access/accounts/close.ts';
import { errors } from '../../errors/errors.ts';
import { issueAccountKey } from '../../keys/account-keys.ts';
import type { Deps } from '../deps.ts';

const Params = Type.Object({ id: Type.String({ description: "The account's id." }) });
type Params = { id: string };
const description = 'Requires an operator key.';
const limits = ['name', 'max_projects', 'max_total_mb', 'max_requests_per_second'];
/** Every project of the account is opened or closed. */
const closeWithinMs = 60_000;

export function accountRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['accounts'];
  const config = { action: 'accounts.manage' as const };

  app.get<{ Querystring: ListAccounts }>(
    '/accounts',
    {
      config,
      schema: {
        operationId: 'listAccounts',
        tags,
        summary: 'List accounts',
        description,
        querystring: ListAccounts,
        response: { 200: AccountsResponse },
      },
    },
    async (request): Promise<AccountsResponse> => ({
      ok: true,
      ...(await listAccounts(deps, request.query)),
    }),
  );

  app.post<{ Body: CreateAccount }>(
    '/accounts',
    {
      config: {
        ...config,
        showsSecret: true,
        audit: {
          action: 'account.create',
          fields: [...limits, 'owner_email'],
          made: ({ account }) => ({ target: account?.id }),
        },
      },
      schema: {
        operationId: 'createAccount',
        tags,
        summary: 'Create an account',
        description: `${description} The response contains the first key of the account, which is shown only once.`,
        body: CreateAccount,
        response: { 201: CreatedAccountResponse },
      },
    },
    async (request, reply): Promise<CreatedAccountResponse> => {
      const { account, apiKey, link } = await createAccount(deps, request.body);
      reply.status(201).header('location', `${app.prefix}/accounts/${account.id}`);
      return { ok: true, account, api_key: apiKey, ...(link !== null && { invitation_link: link }) };
    },
  );

  app.get<{ Params: Params }>(
    '/accounts/:id',
    {
      config: { ...config, fails: ['account_not_found'] },
      schema: {
        operationId: 'getAccount',
        tags,
        summary: 'Get an account',
        description,
        params: Params,
        response: { 200: AccountResponse },
      },
    },
    async ({ params }): Promise<AccountResponse> => ({
      ok: true,
      account: await getAccount(deps, params.id),
    }),
  );

  app.patch<{ Params: Params; Body: ChangeAccount }>(
    '/accounts/:id',
    {
      config: {
        ...config,
        audit: { action: 'account.limit', fields: [...limits, 'suspended_because', 'is_operator'] },
        fails: ['account_not_found', 'conflict'],
      },
      schema: {
        operationId: 'changeAccount',
        tags,
        summary: 'Change the name or the limits of an account, suspend it or resume it',
        description: `${description} While it is suspended, every request with one of its keys gets 403 account_suspended, and its databases accept no connections.`,
        params: Params,
        body: ChangeAccount,
        response: { 200: AccountResponse },
      },
    },
    async (request): Promise<AccountResponse> => {
      const { id } = request.params;
      const account = await changeAccount(deps, id, request.body);
      if (request.body.suspended_because !== undefined) {
        request.deadline.allow(closeWithinMs);
        await closeProjects(deps, await projectsOf(deps.control, id));
      }
      return { ok: true, account };
    },
  );

  app.delete<{ Params: Params }>(
    '/accounts/:id',
    {
      config: {
        ...config,
        answerWithinMs: closeWithinMs,
        audit: { action: 'account.delete' },
        fails: ['account_not_found', 'conflict'],
      },
      schema: {
        operationId: 'deleteAccount',
        tags,
        summary: 'Delete an account with its projects',
        description: `${description} It can be restored until dropped_after.`,
        params: Params,
        response: { 200: AccountResponse },
      },
    },
    async ({ params }): Promise<AccountResponse> => {
      const { account, projects } = await deleteAccount(deps, params.id);
      await closeProjects(deps, projects);
      return { ok: true, account };
    },
  );

  app.post<{ Params: Params; Body: IssueAccountKey }>(
    '/accounts/:id/keys',
    {
      config: {
        ...config,
        showsSecret: true,
        audit: { action: 'account.issue_key', fields: ['name', 'role', 'expires_at'] },
        fails: ['account_not_found', 'conflict'],
      },
      schema: {
        operationId: 'issueKeyOfAccount',
        tags,
        summary: 'Issue a key of an account',
        description: `${description} For an account whose keys are lost. The response contains the key, which is shown only once. It reaches the data of the account; the audit log of the account has an entry.`,
        params: Params,
        body: IssueAccountKey,
        response: { 201: IssuedAccountKeyResponse },
      },
    },
    async (request, reply): Promise<IssuedAccountKeyResponse> => {
      const { id: accountId, status } = await getAccount(deps, request.params.id);
      if (status === 'deleted') throw errors.accountNotFound(accountId);
      const { caller } = request;
      // In the own account, nobody gets more than the own role by being an operator, too.
      const isOwn = caller?.kind === 'account' && caller.accountId === accountId;
      const issuer = isOwn ? caller : null;
      const rights = issuer ?? ({ accountId, role: 'owner', expiresAt: null } as const);
      const { key, apiKey } = await issueAccountKey(deps, rights, request.body, issuer);
      reply.status(201);
      return { ok: true, key, api_key: apiKey };
    },
  );

  app.post<{ Params: Params }>(
    '/accounts/:id/restore',
    {
      config: {
        ...config,
        answerWithinMs: closeWithinMs,
        audit: { action: 'account.restore' },
        fails: ['account_not_found', 'conflict'],
      },
      schema: {
        operationId: 'restoreAccount',
        tags,
        summary: 'Restore a deleted account',
        description: `${description} With the projects that were deleted together with it.`,
        params: Params,
        response: { 200: AccountResponse },
      },
    },
    async ({ params }): Promise<AccountResponse> => {
      const { account, projects } = await undeleteAccount(deps, params.id);
      await closeProjects(deps, projects);
      return { ok: true, account };
    },
  );
}
