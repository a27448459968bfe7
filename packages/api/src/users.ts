// Wire types of end users.
import Type, { type Static } from 'typebox';
import { pageQuery, success } from './envelope.ts';
import { closed, maybeTime, time } from './fields.ts';

/** The server validates length and characters where it uses the value. */
const email = Type.String({ description: 'At most 254 characters.', examples: ['ada@example.com'] });
const password = Type.String({ description: '8 to 1,024 bytes.', examples: ['correct horse'] });
const data = Type.Unknown({
  description: 'An object with any attributes, at most 64 KB.',
  examples: [{ name: 'Ada' }],
});
const role = Type.String({
  pattern: '^[\\w.:-]{1,64}$',
  description: '1 to 64 letters, digits, or . : _ -',
  examples: ['authenticated'],
});
const code = Type.String({ description: 'The code as the user received it.', maxLength: 200 });

export const User = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    email: Type.String({ description: 'As the user typed it.' }),
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
      description: 'A JWT (HS256, signed with the project key), valid for 24 hours.',
    }),
    token_type: Type.Literal('bearer'),
    expires_in: Type.Integer({ description: 'In seconds.', examples: [86_400] }),
    expires_at: time,
    refresh_token: Type.String({ description: 'For one call of POST auth/refresh.' }),
  },
  { additionalProperties: false },
);
export type Session = Static<typeof Session>;

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
        description: 'The sessions of the user to end: this one, all others, or all.',
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
      Type.String({ description: 'Required for a new password.', examples: ['correct horse'] }),
    ),
    data: Type.Optional(data),
  },
  { ...closed, minProperties: 1 },
);
export type ChangeOwnUser = Static<typeof ChangeOwnUser>;

/** `email` requests a code; `code` uses it. */
export const Recover = Type.Object(
  {
    email: Type.Optional(email),
    code: Type.Optional(code),
    password: Type.Optional(password),
    send: Type.Optional(
      Type.Boolean({
        description: 'With the scope manage: send the code to the user instead of returning it.',
      }),
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
      Type.String({
        minLength: 1,
        maxLength: 254,
        description: 'A part of an email address, or a whole id.',
      }),
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
        'Reject common passwords and simple variations of them, at sign-up and when a password is changed.',
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
  ended: Type.Integer({ description: 'The number of ended sessions.' }),
});
export type SignedOutResponse = Static<typeof SignedOutResponse>;
export const UserSession = Type.Object(
  {
    id: Type.String({ format: 'uuid', description: 'The claim sid of its tokens.' }),
    created_at: time,
    refreshed_at: { ...time, description: 'When its refresh token was last used.' },
    expires_at: { ...time, description: 'When it ends, unless it is refreshed before.' },
    is_acting: Type.Boolean({
      description: 'An API key acts as the user in this session. GET auth/act-as tells which.',
    }),
  },
  closed,
);
export type UserSession = Static<typeof UserSession>;
export const UserSessionsResponse = success({
  sessions: Type.Array(UserSession, { description: 'Newest first.' }),
});
export type UserSessionsResponse = Static<typeof UserSessionsResponse>;
export const HandedCodeResponse = success({
  code: Type.String({ description: 'Can be used once.' }),
  expires_at: time,
});
export type HandedCodeResponse = Static<typeof HandedCodeResponse>;
export const CodeResponse = Type.Union([
  HandedCodeResponse,
  success({ sent: Type.Literal(true, { description: 'The same if there is no such user.' }) }),
]);
export const UserSettingsResponse = success({ settings: UserSettings });
