// Wire types of what an operator does for people.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

export const RecoverPerson = Type.Object(
  {
    email: Type.String({ minLength: 1, maxLength: 508 }),
    reset_second_factor: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Also removes the authenticator app and the passkeys, and disconnects the other provider, when the link is used.',
      }),
    ),
  },
  { additionalProperties: false },
);
export const RecoveryLinkResponse = success({
  email: Type.String(),
  link: Type.String({
    description:
      'Sets a new password, once. It is shown only once. It begins with the first of ROWHOUSE_CONSOLE_HOSTS. Without this setting, it works only on the machine of the service.',
  }),
  expires_at: Type.String({ format: 'date-time' }),
});

export type RecoverPerson = Static<typeof RecoverPerson>;
export type RecoveryLinkResponse = Static<typeof RecoveryLinkResponse>;
