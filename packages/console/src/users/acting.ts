// Acting as an end user: SQL and rows then run as this user, under row security, and everything else stays the person's
// own. The token stays in the memory of this page and is valid for at most 15 minutes. After that it is still sent, and
// refused: nothing may run with the person's own rights before the person stops acting.
import type { ActAsResponse } from '@rowhouse/api';
import { useSyncExternalStore } from 'react';
import { queryClient } from '../api/queries.ts';
import { api, hooks, path } from '../api/request.ts';

export type Acting = { id: string; slug: string; label: string; token: string; expiresAt: string };

let acting: Acting | null = null;
const listeners = new Set<() => void>();

hooks.actingToken = (slug) => (acting?.slug === slug ? acting.token : null);

export function useActing(slug: string | null): Acting | null {
  const now = useSyncExternalStore(subscribe, () => acting);
  return now?.slug === slug ? now : null;
}

/** `userId`: "anon" for a visitor who has not signed in. */
export async function startActing(slug: string, userId: string): Promise<void> {
  if (acting) await stopActing();
  const answer = await api.post<ActAsResponse>(path`projects/${slug}/auth/users/${userId}/act-as`);
  const { token, expires_at: expiresAt } = answer;
  const label = answer.acting.user?.email ?? 'an anonymous visitor';
  set({ id: answer.acting.id, slug, label, token, expiresAt });
}

export async function stopActing(): Promise<void> {
  const ended = acting;
  if (!ended) return;
  set(null);
  await api.delete(path`projects/${ended.slug}/auth/act-as/${ended.id}`);
}

/** The session has ended: the token is worth nothing in another one. */
export function forgetActing() {
  if (acting) set(null);
}

function set(next: Acting | null) {
  const slug = (next ?? acting)?.slug;
  acting = next;
  for (const listener of listeners) listener();
  // What one user may see must not stay on the screen of another.
  void queryClient.resetQueries({ queryKey: ['project', slug] });
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
