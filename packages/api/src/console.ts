// Wire types of the console's own endpoints under /console. The page uses them; programs use the API with a key.
import Type, { type Static } from 'typebox';
import { roles } from './accounts.ts';
import { success } from './envelope.ts';
import { closed, time } from './fields.ts';
import { scopes } from './keys.ts';
import { PasskeyAnswer } from './passkeys.ts';

export const consolePrefix = '/console';
/** The second half of a session. The first one is a cookie. */
export const consoleTokenHeader = 'rowhouse-console-token';

const secret = Type.String({ minLength: 1, maxLength: 200 });

const password = Type.String({ maxLength: 4096 });

/** What the provider sent the browser back with, and what the page kept of the beginning. */
export const ConsoleProviderAnswer = Type.Object(
  { flow: Type.String({ maxLength: 2000 }), query: Type.String({ maxLength: 8000 }) },
  closed,
);
/** After an answer that lacked the code of the second factor: what was proved already. */
const ConsoleProviderProof = Type.Object({ proof: Type.String({ maxLength: 2000 }) }, closed);

/** One of `link`, `api_key`, `passkey`, `provider`, and `email` with `password`. */
export const ConsoleSignIn = Type.Object(
  {
    link: Type.Optional(secret),
    api_key: Type.Optional(secret),
    email: Type.Optional(Type.String({ maxLength: 508 })),
    password: Type.Optional(password),
    /** The code of the second factor, or a recovery code. */
    code: Type.Optional(Type.String({ maxLength: 100 })),
    passkey: Type.Optional(PasskeyAnswer),
    provider: Type.Optional(Type.Union([ConsoleProviderAnswer, ConsoleProviderProof])),
  },
  { ...closed, minProperties: 1 },
);
/** The key, or the password or a passkey of the person. */
export const ConsoleConfirm = Type.Object(
  {
    api_key: Type.Optional(secret),
    password: Type.Optional(password),
    passkey: Type.Optional(PasskeyAnswer),
  },
  { ...closed, minProperties: 1, maxProperties: 1 },
);
export const ConsoleSwitch = Type.Object({ account_id: secret }, closed);

const session = {
  id: Type.String(),
  /** null: the session was opened with a key or a link. */
  person: Type.Union([Type.Object({ id: Type.String(), email: Type.String() }, closed), Type.Null()]),
  /** null: the session is that of a project's key. */
  role: Type.Union([Type.Enum([...roles]), Type.Null()]),
  is_operator: Type.Boolean(),
  /** false: the key of a project, or a member who sees only some projects of the account. */
  sees_all_projects: Type.Boolean(),
  /** The account requires a second factor. Until there is one, only the profile can be used. */
  lacks_second_factor: Type.Boolean(),
  /** Why the account is suspended. Only the profile can be used then. null: it is not. */
  suspended_because: Type.Union([Type.String(), Type.Null()]),
  account: Type.Object({ id: Type.String(), name: Type.String() }, closed),
  scope: Type.Enum(['account', 'project']),
  /** The slug, for a session with the key of a project. */
  project: Type.Union([Type.String(), Type.Null()]),
  /** null: everything in the account or in the project. */
  scopes: Type.Union([Type.Array(Type.Enum([...scopes])), Type.Null()]),
  expires_at: time,
  /** Until then, keys and connection strings are shown. */
  confirmed_until: Type.Union([time, Type.Null()]),
};
export const ConsoleSession = Type.Object(session, closed);
export const ConsoleSessionResponse = success(session);
export const ConsoleSignedInResponse = success({ ...session, token: Type.String() });

export const ListedConsoleSession = Type.Object(
  {
    id: Type.String(),
    is_current: Type.Boolean(),
    address: Type.String(),
    user_agent: Type.Union([Type.String(), Type.Null()]),
    created_at: time,
    last_seen_at: time,
    expires_at: time,
  },
  closed,
);
export const ConsoleSessionsResponse = success({ sessions: Type.Array(ListedConsoleSession) });
export const ConsoleEndedResponse = success({});

export type ConsoleSignIn = Static<typeof ConsoleSignIn>;
export type ConsoleConfirm = Static<typeof ConsoleConfirm>;
export type ConsoleSwitch = Static<typeof ConsoleSwitch>;
export type ConsoleSession = Static<typeof ConsoleSession>;
export type ConsoleSessionResponse = Static<typeof ConsoleSessionResponse>;
export type ConsoleSignedInResponse = Static<typeof ConsoleSignedInResponse>;
export type ListedConsoleSession = Static<typeof ListedConsoleSession>;
export type ConsoleSessionsResponse = Static<typeof ConsoleSessionsResponse>;
export type ConsoleEndedResponse = Static<typeof ConsoleEndedResponse>;

export const ConsoleOpenInvitation = Type.Object({ code: secret }, closed);
export const ConsoleInvitationResponse = success({
  email: Type.String(),
  role: Type.Enum([...roles]),
  account: Type.Object({ id: Type.String(), name: Type.String() }, closed),
  /** Somebody with this address exists: the password is the present one. */
  is_known: Type.Boolean(),
  /** The email address of who invites. null: whoever holds a key of the account. */
  invited_by: Type.Union([Type.String(), Type.Null()]),
});
export const ConsoleAccept = Type.Object(
  { code: secret, password, second_factor: Type.Optional(Type.String({ maxLength: 100 })) },
  closed,
);
export const ConsoleRecover = Type.Object(
  { email: Type.String({ maxLength: 508 }), password: Type.Optional(password) },
  closed,
);
export const ConsoleSetPassword = Type.Object(
  { password, code: Type.Optional(secret), current_password: Type.Optional(password) },
  closed,
);
/** Shown to others: besides control characters, those are refused that change the direction of the text around them. */
const personName = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern:
    '^(?=.*\\S)[^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]*$',
  description: '1 to 100 characters, not only spaces, without control and invisible characters.',
});
/** null: no name. */
export const ConsoleChangeProfile = Type.Object({ name: Type.Union([personName, Type.Null()]) }, closed);
export const ConsoleUseCode = Type.Object({ code: secret }, closed);
export const ConsoleProfileResponse = success({
  person: Type.Object(
    {
      id: Type.String(),
      email: Type.String(),
      name: Type.Union([Type.String(), Type.Null()]),
      has_password: Type.Boolean(),
      has_second_factor: Type.Boolean(),
    },
    closed,
  ),
  accounts: Type.Array(
    Type.Object({ id: Type.String(), name: Type.String(), role: Type.Enum([...roles]) }, closed),
  ),
});

export type ConsoleOpenInvitation = Static<typeof ConsoleOpenInvitation>;
export type ConsoleInvitationResponse = Static<typeof ConsoleInvitationResponse>;
export type ConsoleAccept = Static<typeof ConsoleAccept>;
export type ConsoleRecover = Static<typeof ConsoleRecover>;
export type ConsoleSetPassword = Static<typeof ConsoleSetPassword>;
export type ConsoleChangeProfile = Static<typeof ConsoleChangeProfile>;
export type ConsoleUseCode = Static<typeof ConsoleUseCode>;
export type ConsoleProfileResponse = Static<typeof ConsoleProfileResponse>;

export const ConsoleBeginFactor = Type.Object({ password }, closed);
export const ConsoleFactorResponse = success({
  /** For an authenticator app, as text and as the content of a QR code. */
  secret: Type.String(),
  uri: Type.String(),
});
export const ConsoleRecoveryCodesResponse = success({ recovery_codes: Type.Array(Type.String()) });
export const ConsoleProveFactor = Type.Object({ password, code: secret }, closed);

export type ConsoleBeginFactor = Static<typeof ConsoleBeginFactor>;
export type ConsoleFactorResponse = Static<typeof ConsoleFactorResponse>;
export type ConsoleRecoveryCodesResponse = Static<typeof ConsoleRecoveryCodesResponse>;
export type ConsoleProveFactor = Static<typeof ConsoleProveFactor>;

export const ConsoleWaysResponse = success({
  /** The origin under which passkeys work. null: nowhere. */
  passkeys: Type.Union([Type.String(), Type.Null()]),
  /** The name of the other provider. */
  provider: Type.Union([Type.String(), Type.Null()]),
  /** Links for a new password are mailed. */
  recovery: Type.Boolean(),
});
export const ConsoleProviderResponse = success({ url: Type.String(), flow: Type.String() });
export const ConsoleProviderLinkResponse = success({
  provider: Type.Union([
    Type.Object({ name: Type.String(), is_linked: Type.Boolean() }, closed),
    Type.Null(),
  ]),
});

export type ConsoleProviderAnswer = Static<typeof ConsoleProviderAnswer>;
export type ConsoleWaysResponse = Static<typeof ConsoleWaysResponse>;
export type ConsoleProviderResponse = Static<typeof ConsoleProviderResponse>;
export type ConsoleProviderLinkResponse = Static<typeof ConsoleProviderLinkResponse>;
