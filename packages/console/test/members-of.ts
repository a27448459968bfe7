// Accounts and people for the browser tests: an account with its key, invitations, and persons who have accepted one.
import { expect } from 'vitest';
import { api } from '../../server/test/support/helpers.ts';
import type { ListeningService } from './visit.ts';

export const password = 'violet anchor seven maple';

export async function openAccount(
  rowhouse: ListeningService,
  name: string,
): Promise<{ id: string; key: string }> {
  const made = await rowhouse.call('POST', `${api}/accounts`, { key: rowhouse.operatorKey, body: { name } });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return { id: made.body.account.id, key: made.body.api_key };
}

/** The link, as the page gets it. */
export async function inviteTo(rowhouse: ListeningService, key: string, body: object): Promise<string> {
  const answer = await rowhouse.call('POST', `${api}/account/invitations`, { key, body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return new URL(answer.body.link, rowhouse.origin).href;
}

/** Accepts an invitation as a page does, without a browser. */
export async function join(
  rowhouse: ListeningService,
  key: string,
  email: string,
  role: string,
): Promise<void> {
  const code = (await inviteTo(rowhouse, key, { email, role })).split('#invitation=')[1];
  const answer = await fetch(`${rowhouse.origin}/console/invitation/accept`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      origin: rowhouse.origin,
      'sec-fetch-site': 'same-origin',
      'sec-fetch-dest': 'empty',
    },
    body: JSON.stringify({ code, password }),
  });
  expect(answer.status, await answer.text()).toBe(200);
}
