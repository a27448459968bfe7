// Wire types of passkeys, which only the console uses.
import Type, { type Static } from 'typebox';
import { success, title } from './envelope.ts';
import { closed, time } from './fields.ts';

const bytes = Type.String({ minLength: 1, maxLength: 8192, pattern: '^[A-Za-z0-9_-]*$' });

export const Passkey = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    /** Synchronized to other devices of its owner. */
    is_backed_up: Type.Boolean(),
    created_at: time,
    last_used_at: Type.Union([time, Type.Null()]),
  },
  closed,
);

/** What a browser answers, as JSON of the WebAuthn standard. Browsers add fields. */
export const PasskeyAnswer = Type.Object({
  id: bytes,
  rawId: bytes,
  type: Type.Literal('public-key'),
  response: Type.Object({
    clientDataJSON: bytes,
    userHandle: Type.Optional(Type.Union([Type.String({ maxLength: 200 }), Type.Null()])),
  }),
});

export const AddPasskey = Type.Object({ name: title, answer: PasskeyAnswer }, closed);
export const RenamePasskey = Type.Object({ name: title }, closed);
/** For the browser, as JSON of the WebAuthn standard. */
export const PasskeyOptionsResponse = success({ options: Type.Record(Type.String(), Type.Unknown()) });
export const PasskeyResponse = success({ passkey: Passkey });
export const PasskeysResponse = success({ passkeys: Type.Array(Passkey) });

export type Passkey = Static<typeof Passkey>;
export type PasskeyAnswer = Static<typeof PasskeyAnswer>;
export type AddPasskey = Static<typeof AddPasskey>;
export type RenamePasskey = Static<typeof RenamePasskey>;
export type PasskeyOptionsResponse = Static<typeof PasskeyOptionsResponse>;
export type PasskeyResponse = Static<typeof PasskeyResponse>;
export type PasskeysResponse = Static<typeof PasskeysResponse>;
