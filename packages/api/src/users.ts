// End users of a project's application on the wire.
import Type, { type Static } from 'typebox';
import { pageQuery, success } from './envelope.ts';

const time = Type.String({ format: 'date-time' });
const maybeTime = Type.Union([time, Type.Null()]);
/** Lengths and letters are judged where they are used, in one place. */
const email = Type.String({ description: 'At most 254 characters.', examples: ['ada@example.com'] });
const password = Type.String({ description: '8 to 1,024 bytes.', examples: ['correct horse'] });
const data = Type.Unknown({
  description: 'An object of free-form attributes, at most 64 KB.',
  examples: [{ name: 'Ada' }],
});
const role = Type.String({
  pattern: '^[\\w.:-]{1,64}$',
  description: '1 to 64 letters, digits, and . : _ -',
  examples: ['authenticated'],
});
const code = Type.String({ description: 'As it was handed out.', maxLength: 200 });

export const User = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    email: Type.String({ description: 'As it was typed.' }),
    role: Type.String(),
    data: Type.Record(Type.String(), Type.Unknown()),
    created_at: time,
    last_sign_in_at: maybeTime,
    email_verified_at: maybeTime,
    banned_at: maybeTime,
  },
  { additionalProperties: false },
);
export type User = Static<typeof User>;

export const Session = Type.Object(
  {
    access_token: Type.String({
      description: 'A JWT (HS256, signed with the project key), good for 24 hours.',
    }),
    token_type: Type.Literal('bearer'),
    expires_in: Type.Integer({ description: 'Seconds.', examples: [86_400] }),
    expires_at: time,
    refresh_token: Type.String({ description: 'For POST auth/refresh, once.' }),
  },
  { additionalProperties: false },
);
export type Session = Static<typeof Session>;

const closed = { additionalProperties: false } as const;

export const SignUp = Type.Object({ email, password, data: Type.Optional(data) }, closed);
export type SignUp = Static<typeof SignUp>;
export const SignIn = Type.Object({ email, password }, closed);
export type SignIn = Static<typeof SignIn>;
export const Refresh = Type.Object({ refresh_token: Type.String({ maxLength: 500 }) }, closed);
export type Refresh = Static<typeof Refresh>;
export const SignOut = Type.Object(
  {
    scope: Type.Optional(
      Type.Enum(['this', 'others', 'all'], {
        default: 'this',
        description: 'Which sessions of the user end: this one, all others, or all.',
      }),
    ),
  },
  closed,
);
export type SignOut = Static<typeof SignOut>;

export const ChangeOwnUser = Type.Object(
  {
    email: Type.Optional(email),
    password: Type.Optional(password),
    current_password: Type.Optional(
      Type.String({ description: 'Needed for a new password.', examples: ['correct horse'] }),
    ),
    data: Type.Optional(data),
  },
  { ...closed, minProperties: 1 },
);
export type ChangeOwnUser = Static<typeof ChangeOwnUser>;

/** A code is asked for by e-mail, and used with what it is for. */
export const Recover = Type.Object(
  {
    email: Type.Optional(email),
    code: Type.Optional(code),
    password: Type.Optional(password),
    send: Type.Optional(
      Type.Boolean({ description: 'With a key that may manage: send the code instead of returning it.' }),
    ),
  },
  closed,
);
export type Recover = Static<typeof Recover>;
export const Verify = Type.Object(
  { email: Type.Optional(email), code: Type.Optional(code), send: Recover.properties.send },
  closed,
);
export type Verify = Static<typeof Verify>;

export const ListUsers = Type.Object(
  {
    ...pageQuery({ max: 1000 }),
    search: Type.Optional(
      Type.String({ minLength: 1, maxLength: 254, description: 'Part of an e-mail, or a whole id.' }),
    ),
  },
  closed,
);
export type ListUsers = Static<typeof ListUsers>;
export const CreateUser = Type.Object(
  {
    email,
    password: Type.Optional(password),
    role: Type.Optional(role),
    data: Type.Optional(data),
    email_verified: Type.Optional(Type.Boolean({ default: false })),
  },
  closed,
);
export type CreateUser = Static<typeof CreateUser>;
export const ChangeUser = Type.Object(
  {
    email: Type.Optional(email),
    password: Type.Optional(password),
    role: Type.Optional(role),
    data: Type.Optional(data),
    email_verified: Type.Optional(Type.Boolean()),
    banned: Type.Optional(Type.Boolean({ description: 'true ends all sessions of the user at once.' })),
  },
  { ...closed, minProperties: 1 },
);
export type ChangeUser = Static<typeof ChangeUser>;

export const UserSettings = Type.Object(
  {
    refuse_common_passwords: Type.Boolean({
      description:
        'Whether common passwords, and what is easily made of them, are refused at sign-up and when one is changed.',
    }),
  },
  closed,
);
export type UserSettings = Static<typeof UserSettings>;
export const ChangeUserSettings = Type.Object(
  { refuse_common_passwords: Type.Optional(Type.Boolean()) },
  { ...closed, minProperties: 1 },
);
export type ChangeUserSettings = Static<typeof ChangeUserSettings>;

export const UserResponse = success({ user: User });
export type UserResponse = Static<typeof UserResponse>;
export const SignedInResponse = success({ user: User, session: Session });
export const UsersResponse = success({
  users: Type.Array(User),
  page: Type.Integer(),
  limit: Type.Integer(),
  has_more: Type.Boolean(),
});
export type UsersResponse = Static<typeof UsersResponse>;
export const SignedOutResponse = success({
  ended: Type.Integer({ description: 'How many sessions ended.' }),
});
export const HandedCodeResponse = success({
  code: Type.String({ description: 'For one use.' }),
  expires_at: time,
});
export type HandedCodeResponse = Static<typeof HandedCodeResponse>;
export const CodeResponse = Type.Union([
  HandedCodeResponse,
  success({ sent: Type.Literal(true, { description: 'If there is such a user.' }) }),
]);
export const UserSettingsResponse = success({ settings: UserSettings });
