// What people do with their own sign-in, for the audit log: an entry in each account that the person belongs to.
import type { FastifyRequest } from 'fastify';
import { accountsOf } from '../../access/people/members.ts';
import type { Deps } from '../deps.ts';
import { whoOf, write } from '../request/audit-entries.ts';
import type { Person } from './person.ts';

export async function notePerson(
  deps: Deps,
  request: FastifyRequest,
  { id, email }: Person,
  action: string,
  details: Record<string, unknown> | null = null,
): Promise<void> {
  for (const accountId of await accountsOf(deps.control, { id })) {
    await write(deps, {
      ...whoOf(request),
      accountId,
      action,
      details,
      project: null,
      target: id,
      outcome: 'done',
      error: null,
      actor: { kind: 'person', id, name: email },
    });
  }
}
