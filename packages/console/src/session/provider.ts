// Sign-in with another provider leaves the page, and the provider sends the browser back to it. The service needs
// the provider's answer together with `flow`, what it gave this page at the beginning (its nonce and PKCE verifier, encrypted).
// sessionStorage keeps `flow` meanwhile: only the tab that began a sign-in finishes it.
import type { ConsoleProviderResponse } from '@rowhouse/api';
import { sessionRequest } from '../api/request.ts';

export type ProviderAnswer = { flow: string; query: string };
type Aim = 'sign-in' | 'connect';

const storageKey = 'rowhouse.provider';
const pages: Record<Aim, string> = { 'sign-in': '/console/', connect: '/console/profile' };
let returned: { aim: Aim; answer: ProviderAnswer } | null = null;

export async function goToProvider(aim: Aim): Promise<void> {
  const { url, flow } = await sessionRequest<ConsoleProviderResponse>('POST', 'provider');
  sessionStorage.setItem(storageKey, JSON.stringify({ aim, flow }));
  location.assign(url);
}

/** Called when the page starts. The code of the provider leaves the address at once. */
export function noteReturn(): void {
  if (location.pathname !== '/console/signed-in') return;
  const kept = JSON.parse(sessionStorage.getItem(storageKey) ?? 'null') as { aim: Aim; flow: string } | null;
  sessionStorage.removeItem(storageKey);
  const { aim, flow } = kept ?? { aim: 'sign-in' as const, flow: '' };
  returned = { aim, answer: { flow, query: location.search } };
  history.replaceState(null, '', pages[aim]);
}

/** What the provider answered, once. */
export function takeAnswer(aim: Aim): ProviderAnswer | null {
  if (returned?.aim !== aim) return null;
  const { answer } = returned;
  returned = null;
  return answer;
}
