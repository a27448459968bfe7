// The shape every response has, whatever the endpoint.
import Type, { type Static } from 'typebox';
import { errorCodes } from './error-codes.ts';

export const ErrorBody = Type.Object(
  {
    ok: Type.Literal(false),
    error: Type.Object({
      code: Type.Enum(Object.keys(errorCodes) as [string, ...string[]], {
        description: 'Stable, for programs.',
      }),
      message: Type.String({ description: 'For people.' }),
      hint: Type.Optional(Type.String({ description: 'The next step, where there is one.' })),
      details: Type.Optional(Type.Unknown()),
      sql: Type.Optional(
        Type.Record(Type.String(), Type.String(), { description: "PostgreSQL's own words." }),
      ),
    }),
    request_id: Type.String(),
  },
  { additionalProperties: false },
);
export type ErrorBody = Static<typeof ErrorBody>;

/** One entry of `error.details` of `invalid_request`. */
export type Problem = { path: string; problem: string };

/** `ok: true` beside the given fields. */
export function success<const Fields extends Record<string, Type.TSchema>>(fields: Fields) {
  return Type.Object({ ok: Type.Literal(true), ...fields }, { additionalProperties: false });
}

/** Query parameters of a list that comes in pages. */
export function pageQuery({ max }: { max: number }) {
  return {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: max, default: 50, description: 'Page size.' })),
    page: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1_000_000, default: 1, description: 'Page number, from 1.' }),
    ),
  };
}

/** A name that people give to things. */
export const title = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '^(?=.*\\S)[^\\u0000-\\u001f\\u007f]*$',
  description: '1 to 100 characters, not all blank, no control characters.',
});
