// Wire types of API keys.
import Type, { type Static } from 'typebox';
import { Identity, success, title } from './envelope.ts';
import { time } from './fields.ts';

export const scopes = ['query', 'query:read', 'tables:read', 'tables:write', 'auth', 'manage'] as const;
export type Scope = (typeof scopes)[number];

/** For account keys, too. */
export const KeyIssuer = Type.Union([Identity, Type.Null()], {
  description:
    'The person who issued the key, signed in or with a key that they had issued. null: nobody, or unknown, or the caller uses a key of a project.',
});

export const Key = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    kind: Type.Enum(['project', 'scoped', 'publishable'], {
      description:
        'project: the project key, which has all scopes and signs the tokens of users. scoped: an additional key with chosen scopes. publishable: for browsers.',
    }),
    start: Type.String({
      description: 'The first characters of the key, to recognize it.',
      examples: ['rh_proj_4fQ1'],
    }),
    scopes: Type.Array(Type.Enum([...scopes])),
    tables: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'null: all tables.' }),
    status: Type.Enum(['active', 'rotated', 'expired', 'revoked'], {
      description: 'rotated: replaced, but still valid until expires_at.',
    }),
    expires_at: Type.Union([time, Type.Null()]),
    last_used_at: Type.Union([time, Type.Null()], { description: 'Can be some seconds behind.' }),
    created_at: time,
    revoked_at: Type.Union([time, Type.Null()]),
    issued_by: KeyIssuer,
  },
  { additionalProperties: false },
);
export type Key = Static<typeof Key>;

export const IssueKey = Type.Object(
  {
    name: title,
    kind: Type.Optional(Type.Enum(['scoped', 'publishable'], { default: 'scoped' })),
    scopes: Type.Optional(
      Type.Array(Type.Enum([...scopes]), {
        minItems: 1,
        maxItems: scopes.length,
        uniqueItems: true,
        description: 'Required for a scoped key. A publishable key always has only auth.',
      }),
    ),
    tables: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 127, pattern: '^[^\\u0000]*$' }), {
        minItems: 1,
        maxItems: 1000,
        uniqueItems: true,
        description: 'Names as table or schema.table. If omitted: all tables.',
      }),
    ),
    expires_at: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'An ISO 8601 date-time with a time zone, in the future.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type IssueKey = Static<typeof IssueKey>;

export const RotateKey = Type.Object(
  {
    grace_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 30 * 86_400,
        default: 86_400,
        description: 'How long the old key and the tokens that it signed stay valid. 0: they end at once.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type RotateKey = Static<typeof RotateKey>;

export const KeysResponse = success({ keys: Type.Array(Key) });
export const KeyResponse = success({ key: Key });
export const IssuedKeyResponse = success({
  key: Key,
  api_key: Type.String({ description: 'The key itself. It is shown only once.' }),
});
export const RotatedKeyResponse = success({
  key: Key,
  api_key: Type.String({ description: 'The new project key. It is shown only once.' }),
  previous: Key,
});

export type KeysResponse = Static<typeof KeysResponse>;
export type KeyResponse = Static<typeof KeyResponse>;
export type IssuedKeyResponse = Static<typeof IssuedKeyResponse>;
export type RotatedKeyResponse = Static<typeof RotatedKeyResponse>;
