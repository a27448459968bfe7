// The parts that responses and requests of all endpoints share: the envelope, pages, names.
import Type, { type Static } from 'typebox';
import { errorCodes } from './error-codes.ts';

export const Failure = Type.Object({
  code: Type.Enum(Object.keys(errorCodes) as [string, ...string[]], {
    description: 'A stable code for programs.',
  }),
  message: Type.String({ description: 'A message for people. It can change.' }),
  hint: Type.Optional(Type.String({ description: 'The next action.' })),
  details: Type.Optional(Type.Unknown()),
  sql: Type.Optional(
    Type.Record(Type.String(), Type.String(), { description: "The fields of PostgreSQL's error." }),
  ),
});

export const ErrorBody = Type.Object(
  { ok: Type.Literal(false), error: Failure, request_id: Type.String() },
  { additionalProperties: false },
);
export type ErrorBody = Static<typeof ErrorBody>;

/** An entry of `error.details` for `invalid_request`. */
export type Problem = { path: string; problem: string };

/** `ok: true` and the given fields. */
export function success<const Fields extends Record<string, Type.TSchema>>(fields: Fields) {
  return Type.Object({ ok: Type.Literal(true), ...fields }, { additionalProperties: false });
}

/** The id and address of an end user, or of a person. */
export const Identity = Type.Object(
  { id: Type.String(), email: Type.String() },
  { additionalProperties: false },
);

/** Query parameters of a paginated list. */
export function pageQuery({ max }: { max: number }) {
  return {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: max, default: 50, description: 'Page size.' })),
    page: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1_000_000, default: 1, description: 'Page number, from 1.' }),
    ),
  };
}

/** A display name. */
export const title = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '^(?=.*\\S)[^\\u0000-\\u001f\\u007f]*$',
  description: '1 to 100 characters, not only spaces, without control characters.',
});
