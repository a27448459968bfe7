// The page's half of the session. The cookie is the other half: the page cannot read it, and the service never gives one
// half for the other. sessionStorage is bound to the origin with its port, which cookies are not.
import type { ConsoleSession } from '@rowhouse/api';
import { type ApiError, toApiError } from '../api/error.ts';
import { hooks, sessionRequest } from '../api/request.ts';
import { keepDrafts, type Lost } from '../sql/keep-drafts.ts';
import { mayWrite } from './may.ts';

export type Session = ConsoleSession;
export type SessionState =
  | { status: 'starting' }
  /** Whether the session is still open is unknown. */
  | { status: 'failed'; error: ApiError }
  | { status: 'signed-out'; reason: string | null }
  | { status: 'signed-in'; session: Session };

type Message = { type: 'ask' } | { type: 'token'; token: string } | { type: 'signed-out' };

const storageKey = 'rowhouse.console-token';
/** Whose texts sessionStorage holds. */
const ownerKey = 'rowhouse.owner';
/** How long a new tab waits for another tab to hand over the token. */
const askMs = 150;
/** How long signing out waits for the server, once for the drafts and once for the end of the session. */
const signOutMs = 3_000;

/** Set by the page. Resolves to true if these texts may be discarded. */
export const questions = { discard: async (_lost: readonly Lost[]): Promise<boolean> => false };

let state: SessionState = { status: 'starting' };
const listeners = new Set<() => void>();
const channel = new BroadcastChannel('rowhouse-session');

hooks.token = () => sessionStorage.getItem(storageKey);
hooks.onSessionEnded = () => end('Your session has ended. Sign in again.');
channel.onmessage = ({ data }: MessageEvent<Message>) => {
  const token = hooks.token();
  if (data.type === 'ask' && token) tell({ type: 'token', token });
  if (data.type === 'signed-out') {
    // Also where the session had ended before: its texts are still there.
    sessionStorage.clear();
    end('You signed out in another tab.');
  }
};

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const sessionState = () => state;

/** A link that is opened in a tab which shows the console already loads nothing: only the address changes. */
export function followLinks(): () => void {
  const follow = () => {
    if (linkInAddress() !== null) void start();
  };
  addEventListener('hashchange', follow);
  return () => removeEventListener('hashchange', follow);
}

const linkInAddress = () => new URLSearchParams(location.hash.slice(1)).get('link');

/** The code of /console/#link=…. It leaves the address at once, so that it is in no history and no screenshot. */
export function takeLink(): string | null {
  const link = linkInAddress();
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search);
  return link;
}

export async function start(): Promise<void> {
  const link = takeLink();
  let failure: string | null = null;
  if (link) {
    try {
      return await signIn({ link });
    } catch (error) {
      // Any website can lead here with an invalid link. A session that is open stays.
      failure = (error as Error).message;
    }
  }
  const token = hooks.token() ?? (await askOtherTabs());
  if (!token) return failure === null ? end(null) : set({ status: 'signed-out', reason: failure });
  sessionStorage.setItem(storageKey, token);
  try {
    const session = await sessionRequest<Session>('GET', 'session');
    // Another tab may have signed out meanwhile.
    if (hooks.token() === token) openSession(session, token);
  } catch (problem) {
    const error = toApiError(problem);
    if (error.code === 'session_required') return end(failure);
    set({ status: 'failed', error });
  }
}

export async function signIn(body: { link: string } | { api_key: string }): Promise<void> {
  const { token, ...session } = await sessionRequest<Session & { token: string }>('POST', 'session', body);
  openSession(session, token);
}

/** Removes every text from the browser. Unsaved ones are stored as drafts first. */
export function signOut(): Promise<void> {
  leaving ??= leave().finally(() => {
    leaving = null;
  });
  return leaving;
}

let leaving: Promise<void> | null = null;

async function leave(): Promise<void> {
  // A viewer cannot store drafts, and is not asked about them.
  const isWritable = state.status !== 'signed-in' || mayWrite(state.session);
  const lost = isWritable ? await keepDrafts(signOutMs) : [];
  if (lost.length > 0 && !(await questions.discard(lost))) return;
  const ended = sessionRequest('DELETE', 'session').catch(() => {});
  await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, signOutMs))]);
  tell({ type: 'signed-out' });
  sessionStorage.clear();
  end(null);
}

/** Proves the person again, so that keys and connection strings may be shown for some minutes. */
export function confirmSession(apiKey: string): Promise<unknown> {
  return sessionRequest('POST', 'session/confirm', { api_key: apiKey });
}

/**
 * However the session was found. One that ended by itself leaves the texts of its tabs in sessionStorage: for the same
 * person with the same rights, and for no others.
 */
function openSession(session: Session, token: string) {
  const { account, person, role, project, scopes } = session;
  const owner = JSON.stringify([account.id, person?.id ?? null, role, project, scopes]);
  if (sessionStorage.getItem(ownerKey) !== owner) sessionStorage.clear();
  sessionStorage.setItem(ownerKey, owner);
  sessionStorage.setItem(storageKey, token);
  set({ status: 'signed-in', session });
}

function askOtherTabs(): Promise<string | null> {
  return new Promise((resolve) => {
    const answer = ({ data }: MessageEvent<Message>) => {
      if (data.type === 'token') finish(data.token);
    };
    const timer = setTimeout(() => finish(null), askMs);
    const finish = (token: string | null) => {
      clearTimeout(timer);
      channel.removeEventListener('message', answer);
      resolve(token);
    };
    channel.addEventListener('message', answer);
    tell({ type: 'ask' });
  });
}

function tell(message: Message) {
  channel.postMessage(message);
}

function end(reason: string | null) {
  sessionStorage.removeItem(storageKey);
  if (state.status !== 'signed-out') set({ status: 'signed-out', reason });
}

function set(next: SessionState) {
  state = next;
  for (const listener of listeners) listener();
}
