// Wire types of accounts, for operators and for the account itself, and of its keys.
import Type, { type Static } from 'typebox';
import { success, title } from './envelope.ts';
import { orNull, time } from './fields.ts';
import { KeyIssuer } from './keys.ts';

export const roles = ['viewer', 'developer', 'admin', 'owner'] as const;
export type Role = (typeof roles)[number];
export const RoleName = Type.Enum([...roles], {
  description:
    'viewer: reads. developer: also writes, and manages projects and their keys. admin: also manages members and account keys. owner: also manages owners.',
});

const limits = {
  max_projects: orNull(
    Type.Integer({ minimum: 0, maximum: 1_000_000 }),
    'How many projects. null: no limit.',
  ),
  max_total_mb: orNull(
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    'The sum of limit_mb of all projects. null: no limit.',
  ),
  max_requests_per_second: orNull(
    Type.Integer({ minimum: 1, maximum: 1_000_000 }),
    'Of all keys and members together. More get 429 rate_limited. null: no limit.',
  ),
};

export const Account = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    status: Type.Enum(['active', 'suspended', 'deleted'], {
      description: 'suspended: every request gets 403 account_suspended. The data is kept.',
    }),
    suspended_because: orNull(Type.String(), 'What callers are told.'),
    ...limits,
    is_operator: Type.Boolean({
      description: 'Its owners and admins may also do what an operator may.',
    }),
    requires_second_factor: Type.Boolean({ description: 'Members must sign in with a second factor.' }),
    projects: Type.Integer({ description: 'Projects that are not deleted.' }),
    total_limit_mb: Type.Integer({ description: 'The sum of their limit_mb.' }),
    created_at: time,
    deleted_at: Type.Optional(time),
    dropped_after: Type.Optional(time),
  },
  { additionalProperties: false },
);
export type Account = Static<typeof Account>;

const changeable = Object.fromEntries(
  Object.entries(limits).map(([name, schema]) => [name, Type.Optional(schema)]),
) as { [K in keyof typeof limits]: Type.TOptional<(typeof limits)[K]> };

export const CreateAccount = Type.Object(
  {
    name: title,
    ...changeable,
    owner_email: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 508,
        description: 'Invites the first owner. The response contains the link, unless it was mailed.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type CreateAccount = Static<typeof CreateAccount>;

export const ChangeAccount = Type.Object(
  {
    name: Type.Optional(title),
    ...changeable,
    suspended_because: Type.Optional(
      orNull(
        Type.String({ minLength: 1, maxLength: 300, pattern: '^[^\\u0000-\\u001f]*$' }),
        'Suspends the account; callers are told this text. null: the account can be used again.',
      ),
    ),
    is_operator: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type ChangeAccount = Static<typeof ChangeAccount>;

/** What the account may change itself. */
export const ChangeOwnAccount = Type.Object(
  {
    name: Type.Optional(title),
    requires_second_factor: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type ChangeOwnAccount = Static<typeof ChangeOwnAccount>;

export const ListAccounts = Type.Object(
  {
    status: Type.Optional(Type.Enum(['live', 'deleted'], { default: 'live' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 50 })),
    page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, default: 1 })),
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        pattern: '^[^\\u0000-\\u001f\\u007f]*$',
        description: 'Only accounts with this text in their name, in any case, or with this id.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type ListAccounts = Static<typeof ListAccounts>;

export const AccountKey = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    role: RoleName,
    start: Type.String({ description: 'The first characters of the key.', examples: ['rh_acct_4fQ1'] }),
    status: Type.Enum(['active', 'expired', 'revoked']),
    expires_at: orNull(time, 'null: never.'),
    last_used_at: orNull(time, 'Can be some seconds behind.'),
    created_at: time,
    revoked_at: orNull(time, 'null: it was not revoked.'),
    issued_by: KeyIssuer,
  },
  { additionalProperties: false },
);
export type AccountKey = Static<typeof AccountKey>;

export const IssueAccountKey = Type.Object(
  {
    name: title,
    role: Type.Optional(Type.Enum([...roles], { default: 'developer' })),
    expires_at: Type.Optional(
      Type.String({ format: 'date-time', maxLength: 40, description: 'In the future.' }),
    ),
  },
  { additionalProperties: false },
);
export type IssueAccountKey = Static<typeof IssueAccountKey>;

export const AccountResponse = success({ account: Account });
export const AccountsResponse = success({
  accounts: Type.Array(Account),
  page: Type.Integer(),
  limit: Type.Integer(),
  has_more: Type.Boolean(),
});
export const CreatedAccountResponse = success({
  account: Account,
  api_key: Type.String({ description: 'An account key with the role owner. It is shown only once.' }),
  invitation_link: Type.Optional(
    Type.String({
      description:
        'For owner_email. It works once, for seven days, and is shown only once. It begins with the first of ROWHOUSE_CONSOLE_HOSTS. Without this setting, it works only on the machine of the service.',
    }),
  ),
});
export const OwnAccountResponse = success({
  account: Account,
  role: RoleName,
});
export const AccountKeysResponse = success({ keys: Type.Array(AccountKey) });
export const AccountKeyResponse = success({ key: AccountKey });
export const IssuedAccountKeyResponse = success({
  key: AccountKey,
  api_key: Type.String({ description: 'The key itself. It is shown only once.' }),
});

export type AccountResponse = Static<typeof AccountResponse>;
export type AccountsResponse = Static<typeof AccountsResponse>;
export type CreatedAccountResponse = Static<typeof CreatedAccountResponse>;
export type OwnAccountResponse = Static<typeof OwnAccountResponse>;
export type AccountKeysResponse = Static<typeof AccountKeysResponse>;
export type AccountKeyResponse = Static<typeof AccountKeyResponse>;
export type IssuedAccountKeyResponse = Static<typeof IssuedAccountKeyResponse>;
