// The members of the caller's account over HTTP, and invitations.
import {
  ChangeMember,
  InvitedResponse,
  InviteMember,
  MemberKeysResponse,
  MemberResponse,
  MembersResponse,
  RemovedResponse,
  RemoveMember,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { invite, listInvitations, revokeInvitation } from '../../access/people/invitations.ts';
import { listMemberKeys, type MemberKeys } from '../../access/people/issued-keys.ts';
import { changeMember, listMembers, removeMember } from '../../access/people/members.ts';
import { requireAccount } from '../../keys/caller.ts';
import { isAllowed } from '../../keys/roles.ts';
import type { Deps } from '../deps.ts';
import { noteRevocations } from '../request/audit-entries.ts';
import { callerOf } from '../request/caller.ts';

const Params = Type.Object({ id: Type.String({ description: "The member's or the invitation's id." }) });
type Params = { id: string };

export function memberRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['account'];
  const accountOf = (request: FastifyRequest) => requireAccount(callerOf(request), 'manage members');

  app.get(
    '/account/members',
    {
      config: { action: 'account.read' },
      schema: {
        operationId: 'listMembers',
        tags,
        summary: 'List members and open invitations',
        description: 'Requires an account key.',
        response: { 200: MembersResponse },
      },
    },
    async (request): Promise<MembersResponse> => {
      const { accountId, role, projects } = accountOf(request);
      const [members, invitations] = await Promise.all([
        listMembers(deps, accountId),
        listInvitations(deps, accountId),
      ]);
      if (isAllowed(role, 'members.manage')) return { ok: true, members, invitations };
      // Who sees only some projects does not learn the names of others.
      const shown = projects === null ? members : members.map((member) => ({ ...member, projects: null }));
      return { ok: true, members: shown, invitations: [] };
    },
  );

  app.patch<{ Params: Params; Body: ChangeMember }>(
    '/account/members/:id',
    {
      config: {
        action: 'members.manage',
        audit: { action: 'member.change', fields: ['role', 'projects'] },
        fails: ['member_not_found', 'project_not_found', 'conflict'],
      },
      schema: {
        operationId: 'changeMember',
        tags,
        summary: "Change a member's role or projects",
        description:
          'Requires the role admin, and at least the present and the new role of the member. The last owner stays one.',
        params: Params,
        body: ChangeMember,
        response: { 200: MemberResponse },
      },
    },
    async (request): Promise<MemberResponse> => ({
      ok: true,
      member: await changeMember(deps, accountOf(request), request.params.id, request.body),
    }),
  );

  app.get<{ Params: Params }>(
    '/account/members/:id/keys',
    {
      config: { action: 'members.manage', fails: ['member_not_found'] },
      schema: {
        operationId: 'listMemberKeys',
        tags,
        summary: 'List the keys that a member issued',
        description:
          'Requires the role admin. Keys of the account and of its projects that work, also those that were issued with a key of the member. They outlive the membership. Also for a person who is no longer a member.',
        params: Params,
        response: { 200: MemberKeysResponse },
      },
    },
    async (request): Promise<MemberKeysResponse> =>
      toResponse(await listMemberKeys(deps, accountOf(request), request.params.id)),
  );

  app.delete<{ Params: Params; Querystring: RemoveMember }>(
    '/account/members/:id',
    {
      config: {
        action: 'account.read',
        audit: { action: 'member.remove', fields: ['revoke_keys'] },
        fails: ['member_not_found', 'conflict'],
      },
      schema: {
        operationId: 'removeMember',
        tags,
        summary: 'Remove a member, or leave the account',
        description:
          'Requires the role admin, and at least the role of the member. Every member can leave, except the last owner. The response lists the keys that the person issued: they stay valid unless `revoke_keys` is true. `unknown_issuer_count` tells how many further keys the person may know.',
        params: Params,
        querystring: RemoveMember,
        response: { 200: MemberKeysResponse },
      },
    },
    async (request): Promise<MemberKeysResponse> => {
      const ended = await removeMember(deps, accountOf(request), request.params.id, {
        isRevokingKeys: request.query.revoke_keys === 'true',
      });
      await noteRevocations(deps, request, ended.keys);
      return toResponse(ended);
    },
  );

  app.post<{ Body: InviteMember }>(
    '/account/invitations',
    {
      config: {
        action: 'members.manage',
        showsSecret: true,
        audit: {
          action: 'member.invite',
          fields: ['email', 'role', 'projects'],
          made: (answer) => ({ target: answer.invitation?.id }),
        },
        fails: ['project_not_found', 'conflict'],
      },
      schema: {
        operationId: 'inviteMember',
        tags,
        summary: 'Invite a person',
        description:
          'Requires the role admin, and at least the role that is given. The link works once, for seven days. It is mailed if the operator has configured a mail server; otherwise the response contains it.',
        body: InviteMember,
        response: { 201: InvitedResponse },
      },
    },
    async (request, reply): Promise<InvitedResponse> => {
      const { invitation, link } = await invite(deps, accountOf(request), request.body);
      reply.status(201);
      return { ok: true, invitation, link, is_mailed: link === null };
    },
  );

  app.delete<{ Params: Params }>(
    '/account/invitations/:id',
    {
      config: { action: 'members.manage', audit: { action: 'member.uninvite' }, fails: ['member_not_found'] },
      schema: {
        operationId: 'revokeInvitation',
        tags,
        summary: 'Revoke an invitation',
        description: 'Requires the role admin.',
        params: Params,
        response: { 200: RemovedResponse },
      },
    },
    async (request): Promise<RemovedResponse> => {
      await revokeInvitation(deps, accountOf(request), request.params.id);
      return { ok: true };
    },
  );
}

function toResponse({ keys, unknownIssuerCount }: MemberKeys): MemberKeysResponse {
  return { ok: true, keys, unknown_issuer_count: unknownIssuerCount };
}
