// Acting as an end user: SQL and rows then run as this user, under row security, and everything else stays the person's
// own. The token is valid for at most 15 minutes. After that it is still sent, and refused: nothing may run with the person's
// own rights before the person stops acting. So it is also in sessionStorage, for a page that is loaded anew, and a new tab
// takes it over with the session.
import type { ActAsResponse } from '@rowhouse/api';
import { useSyncExternalStore } from 'react';
import { queryClient } from '../api/queries.ts';
import { api, hooks, path } from '../api/request.ts';
import { actingKey } from '../session/storage.ts';
import { openListeners } from '../ui/listeners.ts';

export type Acting = { id: string; slug: string; label: string; token: string; expiresAt: string };

let known: { text: string | null; acting: Acting | null } = { text: null, acting: null };
const { subscribe, tellAll } = openListeners();

hooks.actingToken = (slug) => {
  const acting = current();
  return acting?.slug === slug ? acting.token : null;
};

export function useActing(slug: string | null): Acting | null {
  const now = useSyncExternalStore(subscribe, current);
  return now?.slug === slug ? now : null;
}

/** `userId`: "anon" for a visitor who has not signed in. */
export async function startActing(slug: string, userId: string): Promise<void> {
  await stopActing();
  const answer = await api.post<ActAsResponse>(path`projects/${slug}/auth/users/${userId}/act-as`);
  const { token, expires_at: expiresAt } = answer;
  const label = answer.acting.user?.email ?? 'an anonymous visitor';
  set({ id: answer.acting.id, slug, label, token, expiresAt });
}

export async function stopActing(): Promise<void> {
  const ended = current();
  if (!ended) return;
  set(null);
  await api.delete(path`projects/${ended.slug}/auth/act-as/${ended.id}`);
}

/** The user acted as in the open session. Whoever opens another session clears sessionStorage. */
function current(): Acting | null {
  const text = sessionStorage.getItem(actingKey);
  if (text !== known.text) known = { text, acting: text === null ? null : (JSON.parse(text) as Acting) };
  return known.acting;
}

function set(next: Acting | null) {
  const slug = (next ?? current())?.slug;
  if (next) sessionStorage.setItem(actingKey, JSON.stringify(next));
  else sessionStorage.removeItem(actingKey);
  tellAll();
  // What one user may see must not stay on the screen of another.
  void queryClient.resetQueries({ queryKey: ['project', slug] });
}
