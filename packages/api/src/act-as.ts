// Wire types of acting as an end user.
import Type, { type Static } from 'typebox';
import { Identity, pageQuery, success } from './envelope.ts';
import { closed, maybeTime, time } from './fields.ts';

export const ActAs = Type.Object(
  {
    expires_in: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 900, default: 900, description: 'In seconds.' }),
    ),
  },
  closed,
);
export type ActAs = Static<typeof ActAs>;

export const ActingSession = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    user: Type.Union([Identity, Type.Null()], {
      description: 'With the email address of then. null: anonymous.',
    }),
    key: Type.Object(
      { id: Type.String(), name: Type.Union([Type.String(), Type.Null()]) },
      { ...closed, description: 'The API key that asked for the token. It is valid with this key only.' },
    ),
    created_at: time,
    expires_at: time,
    used_at: { ...maybeTime, description: 'The last use, to within ten seconds.' },
    ended_at: { ...maybeTime, description: 'Set if it was ended before its time.' },
  },
  closed,
);
export type ActingSession = Static<typeof ActingSession>;

export const ActAsResponse = success({
  token: Type.String({
    description: 'Send it as "Authorization: Bearer …", together with the same API key as X-API-Key.',
  }),
  expires_at: time,
  acting: ActingSession,
});
export type ActAsResponse = Static<typeof ActAsResponse>;

export const ListActing = Type.Object(pageQuery({ max: 1000 }), closed);
export type ListActing = Static<typeof ListActing>;
export const ActingResponse = success({
  acting: Type.Array(ActingSession, { description: 'Newest first, of the last 90 days.' }),
  page: Type.Integer(),
  limit: Type.Integer(),
  has_more: Type.Boolean(),
});
export type ActingResponse = Static<typeof ActingResponse>;
