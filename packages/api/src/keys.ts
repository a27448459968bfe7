// API keys on the wire.
import Type, { type Static } from 'typebox';
import { success, title } from './envelope.ts';

export const scopes = ['query', 'query:read', 'tables:read', 'tables:write', 'auth', 'manage'] as const;
export type Scope = (typeof scopes)[number];

const time = Type.String({ format: 'date-time' });

export const Key = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    kind: Type.Enum(['project', 'scoped', 'publishable'], {
      description:
        "project: the project's own key, all scopes, signs users' tokens. scoped: a further key. publishable: for browsers.",
    }),
    start: Type.String({
      description: 'How the key begins, to recognise it by.',
      examples: ['rh_proj_4fQ1'],
    }),
    scopes: Type.Array(Type.Enum([...scopes])),
    tables: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'null: every table.' }),
    status: Type.Enum(['active', 'rotated', 'expired', 'revoked'], {
      description: 'rotated: replaced, and still good until expires_at.',
    }),
    expires_at: Type.Union([time, Type.Null()]),
    last_used_at: Type.Union([time, Type.Null()], { description: 'Up to some seconds late.' }),
    created_at: time,
    revoked_at: Type.Union([time, Type.Null()]),
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
        description: 'Needed for a scoped key. A publishable key has auth alone.',
      }),
    ),
    tables: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 127, pattern: '^[^\\u0000]*$' }), {
        minItems: 1,
        maxItems: 1000,
        uniqueItems: true,
        description: 'table or schema.table. Left out: every table.',
      }),
    ),
    expires_at: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'ISO 8601 with a zone, in the future.',
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
        description: 'How long the old key keeps working and its tokens stay valid. 0: it ends at once.',
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
  api_key: Type.String({ description: 'The key itself. Shown only now.' }),
});
export const RotatedKeyResponse = success({
  key: Key,
  api_key: Type.String({ description: 'The new project key. Shown only now.' }),
  previous: Key,
});

export type KeysResponse = Static<typeof KeysResponse>;
export type KeyResponse = Static<typeof KeyResponse>;
export type IssuedKeyResponse = Static<typeof IssuedKeyResponse>;
export type RotatedKeyResponse = Static<typeof RotatedKeyResponse>;
