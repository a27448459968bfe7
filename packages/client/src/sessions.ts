// The session of the signed-in user: stored in memory and in a storage, refreshed in time, and reported to listeners.
import { isRowhouseError, RowhouseError } from './errors.ts';
import { type Numbers, parseJson, toJson } from './json.ts';

/** An end user of a project. */
export type User = {
  id: string;
  email: string;
  role: string;
  data: Record<string, unknown>;
  created_at: string;
  last_sign_in_at: string | null;
  email_verified_at: string | null;
  banned_at: string | null;
};

/** The session that a sign-in creates. */
export type Session = {
  /** A JWT, valid for 24 hours. */
  access_token: string;
  token_type: 'bearer';
  expires_in: number;
  /** ISO 8601. */
  expires_at: string;
  refresh_token: string;
};

/** A user and its session. */
export type SignedIn = { user: User; session: Session };
/** An event of {@link Client.onAuthChange}. */
export type AuthEvent = 'signed_in' | 'refreshed' | 'signed_out';
/** A listener for sign-ins, refreshes and sign-outs. */
export type AuthListener = (event: AuthEvent, session: Session | null) => void;

/** A storage such as `localStorage` or React Native's AsyncStorage. */
export type SessionStorage = {
  getItem(key: string): string | null | PromiseLike<string | null>;
  setItem(key: string, value: string): unknown;
  removeItem(key: string): unknown;
};

/** A session that the application provides may consist of the access token alone. */
export type HeldSession = Pick<Session, 'access_token'> & Partial<Session>;

export type Sessions = {
  current(): HeldSession | null;
  /** The access token, refreshed if it is about to expire; null: no user is signed in. */
  token(): Promise<string | null>;
  /** A token other than the rejected one; null: there is none. */
  renew(refused: string): Promise<string | null>;
  refresh(): Promise<SignedIn>;
  set(event: AuthEvent, signedIn: SignedIn | null): Promise<void>;
  listen(listener: AuthListener): () => void;
};

/** A token must not expire while its request is being sent. */
const spareMs = 30_000;

type Deps = {
  storage: SessionStorage | undefined;
  /** The name of the item in the storage. */
  name: string;
  numbers: Numbers;
  given: HeldSession | null;
  exchange(refreshToken: string): Promise<SignedIn>;
};

export function keepSessions({ storage, name, numbers, given, exchange }: Deps): Sessions {
  let current = given;
  let refreshing: Promise<SignedIn> | null = null;
  const listeners = new Set<AuthListener>();

  const read = (text: string | null): HeldSession | null => {
    try {
      const { session } = parseJson(text ?? '', numbers) as SignedIn;
      return typeof session.access_token === 'string' ? session : null;
    } catch {
      return null;
    }
  };
  const stored = storage?.getItem(name) ?? null;
  // localStorage is synchronous, so that db.session is available immediately.
  if (typeof stored === 'string') current = read(stored);
  const loaded =
    typeof stored === 'string'
      ? null
      : stored?.then((text) => {
          current ??= read(text);
        });

  const set: Sessions['set'] = async (event, signedIn) => {
    current = signedIn?.session ?? null;
    if (signedIn) await storage?.setItem(name, toJson(signedIn));
    else await storage?.removeItem(name);
    for (const listener of listeners) listener(event, signedIn?.session ?? null);
  };

  const refreshOnce = async (): Promise<SignedIn> => {
    await loaded;
    // Another tab may have refreshed first. Using a refresh token twice would end the session.
    const latest = storage && read(await storage.getItem(name));
    const before = latest ?? current;
    if (!before?.refresh_token) throw nobody();
    current = before;
    try {
      const signedIn = await exchange(before.refresh_token);
      // A sign-in or sign-out in the meantime takes precedence.
      if (current === before) await set('refreshed', signedIn);
      return signedIn;
    } catch (error) {
      if (isRowhouseError(error) && error.status === 401 && current === before) await set('signed_out', null);
      throw error;
    }
  };
  const refresh = (): Promise<SignedIn> => {
    refreshing ??= refreshOnce().finally(() => {
      refreshing = null;
    });
    return refreshing;
  };

  return {
    current: () => current,
    token: async () => {
      await loaded;
      const { expires_at, refresh_token } = current ?? {};
      if (refresh_token && expires_at && Date.parse(expires_at) < Date.now() + spareMs) await refresh();
      return current?.access_token ?? null;
    },
    renew: async (refused) => {
      if (current?.access_token === refused) {
        if (!current.refresh_token) return null;
        await refresh();
      }
      return current?.access_token ?? null;
    },
    refresh,
    set,
    listen: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function nobody(): RowhouseError {
  return new RowhouseError('invalid_token', 'No user is signed in.');
}
