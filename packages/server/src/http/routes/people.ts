// People over HTTP, for the operator: whoever lost a password where no mail is sent, or a second factor, needs one.
import { RecoverPerson, RecoveryLinkResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import { startRecovery } from '../../access/people/recovery.ts';
import { errors } from '../../errors/errors.ts';
import type { Deps } from '../deps.ts';

export function personRoutes(app: FastifyInstance, deps: Deps): void {
  app.post<{ Body: RecoverPerson }>(
    '/people/recovery',
    {
      config: {
        action: 'accounts.manage',
        showsSecret: true,
        audit: { action: 'person.give_link', fields: ['email', 'reset_second_factor'] },
        fails: ['member_not_found'],
      },
      schema: {
        operationId: 'recoverPerson',
        tags: ['accounts'],
        summary: 'Create a link with which a person sets a new password',
        description:
          'Requires an operator key. The link works once, for a day, and replaces earlier ones. Give it only to that person.',
        body: RecoverPerson,
        response: { 201: RecoveryLinkResponse },
      },
    },
    async ({ body }, reply): Promise<RecoveryLinkResponse> => {
      const { control, users, now, peopleMail } = deps;
      const started = await startRecovery({ control, hashing: users.hashing, now }, body.email, {
        isMailed: false,
        resetsFactor: body.reset_second_factor ?? false,
      });
      if (!started) throw errors.personNotFound(body.email);
      const { email, code, expiresAt } = started;
      reply.status(201);
      return {
        ok: true,
        email,
        link: peopleMail.link('recovery', code),
        expires_at: expiresAt.toISOString(),
      };
    },
  );
}
