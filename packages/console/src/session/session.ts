// The page's half of the session. The cookie is the other half: the page cannot read it, and the service never gives one
// half for the other. sessionStorage is bound to the origin with its port, which cookies are not.
import type { ConsoleSession, PasskeyAnswer } from '@rowhouse/api';
import { type ApiError, toApiError } from '../api/error.ts';
import { hooks, sessionRequest } from '../api/request.ts';
import { keepDrafts, type Lost } from '../drafts/keep-drafts.ts';
import { ask } from '../ui/ask.ts';
import { mayLeave } from '../ui/leaving.ts';
import { openListeners } from '../ui/listeners.ts';
import { linkIn, takeLink } from './links.ts';
import { mayWrite } from './may.ts';
import { noteReturn, type ProviderAnswer } from './provider.ts';
import { actingKey, ownerKey, tokenKey } from './storage.ts';

export type Session = ConsoleSession;
export type SessionState =
  | { status: 'starting' }
  /** Whether the session is still open is unknown. */
  | { status: 'failed'; error: ApiError }
  | { status: 'signed-out'; reason: string | null }
  /** The address had the code of an invitation, or of a new password. A session that is open stays open. */
  | { status: 'invited' | 'recovering'; code: string }
  | { status: 'signed-in'; session: Session };

/** `owner` and `acting`: a new tab of somebody who acts as an end user acts as the same one. */
type Handover = { token: string; owner: string | null; acting: string | null };
type Message = { type: 'ask' } | ({ type: 'token' } & Handover) | { type: 'signed-out' | 'changed' };
/** What opens a session. */
export type Proof =
  | { link: string }
  | { api_key: string }
  | { passkey: PasskeyAnswer }
  | { provider: ProviderAnswer | { proof: string }; code?: string }
  | { email: string; password: string; code?: string };

/** How long a new tab waits for another tab to hand over the token. */
const askMs = 150;
/** After the first answer: the tab that acts as an end user may be a later one. */
const askMoreMs = 30;
/** How long signing out waits for the server, once for the drafts and once for the end of the session. */
const signOutMs = 3_000;

/** How often the page asks whether the session is still open, and what it may do. */
const watchMs = 5_000;

let state: SessionState = { status: 'starting' };
const listeners = openListeners();
const channel = new BroadcastChannel('rowhouse-session');

hooks.token = () => sessionStorage.getItem(tokenKey);
hooks.onSessionEnded = () => end('Your session has ended. Sign in again.');
channel.onmessage = ({ data }: MessageEvent<Message>) => {
  const token = hooks.token();
  if (data.type === 'ask' && token) {
    const owner = sessionStorage.getItem(ownerKey);
    const acting = sessionStorage.getItem(actingKey);
    tell({ type: 'token', token, owner, acting });
  }
  if (data.type === 'signed-out') {
    // Also where the session had ended before: its texts are still there.
    sessionStorage.clear();
    end('You signed out in another tab.');
  }
  if (data.type === 'changed') void refresh();
};

export const { subscribe } = listeners;

export const sessionState = () => state;
export const isSignedIn = () => state.status === 'signed-in';

/** Who owns the texts in this tab. null: nobody, because the last owner has signed out. */
export const textOwner = () => sessionStorage.getItem(ownerKey);

/** A link that is opened in a tab which shows the console already loads nothing: only the address changes. */
export function followLinks(): () => void {
  const follow = () => {
    if (linkIn(location.hash) !== null) void start();
  };
  addEventListener('hashchange', follow);
  return () => removeEventListener('hashchange', follow);
}

/** The code of a link that proves a new email address, for whoever is signed in or signs in next. */
let emailCode: string | null = null;

export function takeEmailCode(): string | null {
  const code = emailCode;
  emailCode = null;
  return code;
}

export async function start(): Promise<void> {
  noteReturn();
  const { kind, code } = takeLink() ?? { kind: null, code: '' };
  if (kind === 'invitation') return set({ status: 'invited', code });
  if (kind === 'recovery') return set({ status: 'recovering', code });
  if (kind === 'email') emailCode = code;
  const link = kind === 'link' ? code : null;
  if (isLinkPage()) set({ status: 'starting' });
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

export async function signIn(proof: Proof): Promise<void> {
  enter(await sessionRequest<NewSession>('POST', 'session', proof));
}

export type NewSession = Session & { token: string };

export function enter({ token, ...session }: NewSession) {
  openSession(session, token);
}

/** An invitation that waits for the sign-in, after which its page is shown again. */
let waiting: string | null = null;

export function signInFirst(code: string) {
  waiting = code;
  set({ status: 'signed-out', reason: 'Sign in to return to the invitation.' });
}

/** The session that is open in this browser, for the page of a link. */
export async function findOpenSession(): Promise<Session | null> {
  const token = hooks.token() ?? (await askOtherTabs());
  if (!token) return null;
  return sessionRequest<Session>('GET', 'session').catch(() => null);
}

/** The person who is signed in accepts an invitation. The session goes on in that account, in all tabs. */
export async function joinSignedIn(code: string): Promise<void> {
  await sessionRequest('POST', 'person/invitation', { code });
  tell({ type: 'changed' });
  await start();
}

/** Leaves the page of a link. */
export function showSignIn(reason: string | null) {
  set({ status: 'signed-out', reason });
}

/** The person goes on in another account, in all tabs. */
export async function switchAccount(id: string): Promise<void> {
  await sessionRequest('POST', 'session/account', { account_id: id });
  tell({ type: 'changed' });
  await refresh();
}

/** A session that was ended elsewhere, or has another role now, is noticed within seconds. */
export function watchSession(): () => void {
  const look = () => {
    if (state.status === 'signed-in' && document.visibilityState === 'visible')
      void refresh().catch(() => {});
  };
  const timer = setInterval(look, watchMs);
  addEventListener('visibilitychange', look);
  return () => {
    clearInterval(timer);
    removeEventListener('visibilitychange', look);
  };
}

/** Reads what the session is now. Asking does not count as use of it. */
export async function refresh(): Promise<void> {
  const token = hooks.token();
  const known = state.status === 'signed-in' ? state.session : null;
  if (!known || !token) return;
  const session = await sessionRequest<Session & { ok: true }>('GET', 'session/state');
  const isSame = JSON.stringify(rightsOf(session)) === JSON.stringify(rightsOf(known));
  if (isSame || hooks.token() !== token || state.status !== 'signed-in') return;
  // Texts stay while the same person goes on in the same account, whatever the role is now.
  const isOwn = session.account.id === known.account.id && session.person?.id === known.person?.id;
  if (isOwn) sessionStorage.setItem(ownerKey, ownerOf(session));
  else {
    // The screens of the one account are gone, with all that they know, before those of the other begin to ask.
    set({ status: 'starting' });
    await new Promise((resolve) => setTimeout(resolve));
  }
  openSession(session, token);
}

/** What a screen depends on. */
function rightsOf(session: Session) {
  const { id, person, role, is_operator, sees_all_projects, account, scopes } = session;
  const { lacks_second_factor, suspended_because } = session;
  return [
    id,
    person,
    role,
    is_operator,
    sees_all_projects,
    account,
    scopes,
    lacks_second_factor,
    suspended_because,
  ];
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
  if (!(await mayLeave())) return;
  // A viewer cannot store drafts, and is not asked about them.
  const isWritable = state.status !== 'signed-in' || mayWrite(state.session);
  const lost = isWritable ? await keepDrafts(signOutMs) : [];
  if (lost.length > 0 && !(await mayDiscard(lost))) return;
  const ended = sessionRequest('DELETE', 'session').catch(() => {});
  await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, signOutMs))]);
  tell({ type: 'signed-out' });
  sessionStorage.clear();
  end(null);
}

/** Asked also if the session has ended meanwhile: texts that stay are shown again to a person with the same rights. */
function mayDiscard(lost: readonly Lost[]): Promise<boolean> {
  return ask({
    title: 'Discard unsaved SQL?',
    action: 'Discard and sign out',
    about: 'The server did not store these texts. Signing out discards them:',
    items: lost.map(({ slug, title }) => `${title} in ${slug}`),
  });
}

/** Proves the person again, so that keys and connection strings may be shown for some minutes. */
export function confirmSession(
  proof: { api_key: string } | { password: string } | { passkey: PasskeyAnswer },
): Promise<unknown> {
  return sessionRequest('POST', 'session/confirm', proof);
}

/**
 * However the session was found. One that ended by itself leaves the texts of its tabs in sessionStorage: for the same
 * person with the same rights, and for no others.
 */
function openSession(session: Session, token: string) {
  const owner = ownerOf(session);
  if (sessionStorage.getItem(ownerKey) !== owner) sessionStorage.clear();
  sessionStorage.setItem(ownerKey, owner);
  sessionStorage.setItem(tokenKey, token);
  const code = waiting;
  waiting = null;
  set(code === null ? { status: 'signed-in', session } : { status: 'invited', code });
}

const ownerOf = ({ account, person, role, project, scopes }: Session) =>
  JSON.stringify([account.id, person?.id ?? null, role, project, scopes]);

/** The token of the session that is open in another tab, which this one keeps. */
function askOtherTabs(): Promise<string | null> {
  return new Promise((resolve) => {
    let found: Handover | null = null;
    const answer = ({ data }: MessageEvent<Message>) => {
      if (data.type !== 'token') return;
      const isFirst = found === null;
      if (isFirst || data.acting !== null) found = data;
      if (data.acting !== null) finish();
      else if (isFirst) setTimeout(finish, askMoreMs);
    };
    const timer = setTimeout(() => finish(), askMs);
    const finish = () => {
      clearTimeout(timer);
      channel.removeEventListener('message', answer);
      if (found) keep(found);
      resolve(found?.token ?? null);
    };
    channel.addEventListener('message', answer);
    tell({ type: 'ask' });
  });
}

function keep({ token, owner, acting }: Handover) {
  sessionStorage.setItem(tokenKey, token);
  if (owner === null || acting === null) return;
  sessionStorage.setItem(ownerKey, owner);
  sessionStorage.setItem(actingKey, acting);
}

function tell(message: Message) {
  channel.postMessage(message);
}

function end(reason: string | null) {
  sessionStorage.removeItem(tokenKey);
  // The page of a link has a code that is nowhere else.
  if (state.status !== 'signed-out' && !isLinkPage()) set({ status: 'signed-out', reason });
}

const isLinkPage = () => state.status === 'invited' || state.status === 'recovering';

function set(next: SessionState) {
  state = next;
  listeners.tellAll();
}
