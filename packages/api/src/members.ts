// Wire types of the members of an account, and of invitations.
import Type, { type Static } from 'typebox';
import { RoleName, roles } from './accounts.ts';
import { success } from './envelope.ts';
import { time } from './fields.ts';

const email = Type.String({ minLength: 1, maxLength: 508 });
const projects = Type.Union(
  [
    Type.Array(Type.String({ minLength: 1, maxLength: 63 }), { maxItems: 1000, uniqueItems: true }),
    Type.Null(),
  ],
  {
    description:
      'Slugs of the projects that the member sees, for the roles viewer and developer. null: all projects.',
  },
);

export const Member = Type.Object(
  {
    id: Type.String(),
    email: Type.String(),
    name: Type.Union([Type.String(), Type.Null()], {
      description: 'The name that the person entered. Only the email address is verified. null: no name.',
    }),
    role: RoleName,
    projects,
    has_second_factor: Type.Boolean(),
    joined_at: time,
    last_sign_in_at: Type.Union([time, Type.Null()]),
  },
  { additionalProperties: false },
);
export type Member = Static<typeof Member>;

export const ChangeMember = Type.Object(
  { role: Type.Optional(Type.Enum([...roles])), projects: Type.Optional(projects) },
  { additionalProperties: false, minProperties: 1 },
);
export type ChangeMember = Static<typeof ChangeMember>;

export const Invitation = Type.Object(
  {
    id: Type.String(),
    email: Type.String(),
    role: RoleName,
    projects,
    created_at: time,
    expires_at: time,
  },
  { additionalProperties: false },
);
export type Invitation = Static<typeof Invitation>;

export const InviteMember = Type.Object(
  { email, role: Type.Enum([...roles]), projects: Type.Optional(projects) },
  { additionalProperties: false },
);
export type InviteMember = Static<typeof InviteMember>;

export const RemoveMember = Type.Object(
  {
    revoke_keys: Type.Optional(
      Type.Enum(['true', 'false'], {
        default: 'false',
        description:
          'true: revokes the keys that the person issued, together with the removal. Project keys stay: rotate them.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type RemoveMember = Static<typeof RemoveMember>;

export const MemberKey = Type.Object(
  {
    id: Type.String(),
    kind: Type.Enum(['account', 'project', 'scoped', 'publishable']),
    name: Type.String(),
    start: Type.String({ description: 'The first characters of the key.' }),
    role: Type.Union([RoleName, Type.Null()], { description: 'Of an account key.' }),
    project: Type.Union([Type.String(), Type.Null()], { description: 'Its slug. null: an account key.' }),
    status: Type.Enum(['active', 'rotated', 'revoked'], {
      description: 'active and rotated: it works. revoked: with the removal.',
    }),
  },
  { additionalProperties: false },
);
export type MemberKey = Static<typeof MemberKey>;

export const MemberKeysResponse = success({
  keys: Type.Array(MemberKey),
  unknown_issuer_count: Type.Integer({
    description:
      'Further keys of the account and its projects that work and whose issuer is not recorded: the person may know them. Keys of earlier versions, of the first start and of the operator have no issuer, nor have keys that were issued with them. They are never revoked with a removal. Publishable keys, which are public, and keys of deleted projects are not counted.',
  }),
});
export type MemberKeysResponse = Static<typeof MemberKeysResponse>;

export const MembersResponse = success({
  members: Type.Array(Member),
  invitations: Type.Array(Invitation),
});
export const MemberResponse = success({ member: Member });
export const RemovedResponse = success({});
export const InvitedResponse = success({
  invitation: Invitation,
  link: Type.Union([Type.String(), Type.Null()], {
    description:
      'Opens the console and makes whoever has it a member, once. It is shown only once. It begins with the first of ROWHOUSE_CONSOLE_HOSTS. Without this setting, it works only on the machine of the service. null: it was mailed, and only there can it be read.',
  }),
  is_mailed: Type.Boolean({ description: 'Whether it was sent to the address.' }),
});

export type MembersResponse = Static<typeof MembersResponse>;
export type MemberResponse = Static<typeof MemberResponse>;
export type RemovedResponse = Static<typeof RemovedResponse>;
export type InvitedResponse = Static<typeof InvitedResponse>;
