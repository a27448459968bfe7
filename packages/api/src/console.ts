// Wire types of the console's own endpoints under /console. The page uses them; programs use the API with a key.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { scopes } from './keys.ts';

export const consolePrefix = '/console';
/** The second half of a session. The first one is a cookie. */
export const consoleTokenHeader = 'rowhouse-console-token';

const time = Type.String({ format: 'date-time' });
const secret = Type.String({ minLength: 1, maxLength: 200 });
const closed = { additionalProperties: false };

/** Exactly one of the two. */
export const ConsoleSignIn = Type.Object(
  { link: Type.Optional(secret), api_key: Type.Optional(secret) },
  { ...closed, minProperties: 1 },
);
export const ConsoleConfirm = Type.Object({ api_key: secret }, closed);

const session = {
  id: Type.String(),
  /** null: the session was opened with a key or a link. */
  person: Type.Null(),
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
export type ConsoleSession = Static<typeof ConsoleSession>;
export type ConsoleSessionResponse = Static<typeof ConsoleSessionResponse>;
export type ConsoleSignedInResponse = Static<typeof ConsoleSignedInResponse>;
export type ListedConsoleSession = Static<typeof ListedConsoleSession>;
export type ConsoleSessionsResponse = Static<typeof ConsoleSessionsResponse>;
export type ConsoleEndedResponse = Static<typeof ConsoleEndedResponse>;
