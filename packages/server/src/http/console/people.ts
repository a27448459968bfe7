// What people do over HTTP before they have a session, or with their own data: invitations, recovery, profile.
import {
  ConsoleAccept,
  ConsoleBeginFactor,
  ConsoleEndedResponse,
  ConsoleFactorResponse,
  ConsoleInvitationResponse,
  ConsoleOpenInvitation,
  ConsoleProfileResponse,
  ConsoleRecover,
  ConsoleRecoveryCodesResponse,
  ConsoleRemoveFactor,
  ConsoleSetPassword,
  ConsoleUseCode,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { errors } from '../../errors.ts';
import { acceptAs, acceptAsNew, openInvitation } from '../../people/invitations.ts';
import { provePassword } from '../../people/passwords.ts';
import {
  changePassword,
  confirmEmailChange,
  getProfile,
  recover,
  startEmailChange,
  startRecovery,
} from '../../people/profile.ts';
import { beginFactor, confirmFactor, removeFactor } from '../../people/second-factor.ts';
import { provePerson } from '../../people/sign-in.ts';
import type { Deps } from '../deps.ts';
import { identifySession, sessionOf } from './identify.ts';
import { peopleOf, personOf } from './sessions.ts';
import { openAttempts, whoTries } from './sign-in-attempts.ts';

const bodyLimit = 16 * 1024;

/** The requests come from the page: the scope has checked that. */
export function peopleRoutes(app: FastifyInstance, deps: Deps): void {
  const people = peopleOf(deps);
  const attempts = openAttempts(deps.now);
  const onRequest = async (request: FastifyRequest) => identifySession(request, deps);
  const person = (request: FastifyRequest) => {
    const found = personOf(sessionOf(request));
    if (!found)
      throw errors.forbidden(
        'This session is that of a key.',
        'Sign in with an email address and a password.',
      );
    return found;
  };

  app.post<{ Body: ConsoleOpenInvitation }>(
    '/invitation',
    { bodyLimit, schema: { body: ConsoleOpenInvitation, response: { 200: ConsoleInvitationResponse } } },
    async ({ body, ip }): Promise<ConsoleInvitationResponse> => {
      const found = await attempts.try(whoTries(ip), () => openInvitation(people, body.code));
      const { email, role, account, isKnown } = found;
      return { ok: true, email, role, account, is_known: isKnown };
    },
  );

  /** The page signs in afterwards, with the same password. */
  app.post<{ Body: ConsoleAccept }>(
    '/invitation/accept',
    { bodyLimit, schema: { body: ConsoleAccept, response: { 200: ConsoleEndedResponse } } },
    async ({ body, ip }): Promise<ConsoleEndedResponse> =>
      attempts.try(whoTries(ip), async () => {
        const { code, password } = body;
        const { email, isKnown } = await openInvitation(people, code);
        if (!isKnown) await acceptAsNew(people, code, password);
        else {
          const given = { email, password, code: body.second_factor ?? null, network: whoTries(ip) };
          const { personId } = await provePerson(people, given);
          await acceptAs(people, code, personId);
        }
        return { ok: true };
      }),
  );

  /** The response does not reveal whether somebody has the address. */
  app.post<{ Body: ConsoleRecover }>(
    '/recovery',
    { bodyLimit, schema: { body: ConsoleRecover, response: { 200: ConsoleEndedResponse } } },
    async ({ body, ip }): Promise<ConsoleEndedResponse> => {
      await attempts.try(whoTries(ip), async () => {
        if (!deps.users.delivery.isConfigured) throw errors.noMail();
        await startRecovery(people, body.email);
      });
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleSetPassword }>(
    '/recovery/confirm',
    { bodyLimit, schema: { body: ConsoleSetPassword, response: { 200: ConsoleEndedResponse } } },
    async ({ body, ip }): Promise<ConsoleEndedResponse> =>
      attempts.try(whoTries(ip), async () => {
        await recover(people, body.code ?? '', body.password);
        return { ok: true };
      }),
  );

  app.get(
    '/person',
    { onRequest, schema: { response: { 200: ConsoleProfileResponse } } },
    async (request): Promise<ConsoleProfileResponse> => {
      const profile = await getProfile(deps.control, person(request).id);
      const { id, email, hasPassword, hasSecondFactor, accounts } = profile;
      const own = { id, email, has_password: hasPassword, has_second_factor: hasSecondFactor };
      return { ok: true, person: own, accounts: [...accounts] };
    },
  );

  app.post<{ Body: ConsoleSetPassword }>(
    '/person/password',
    { bodyLimit, onRequest, schema: { body: ConsoleSetPassword, response: { 200: ConsoleEndedResponse } } },
    async (request): Promise<ConsoleEndedResponse> => {
      const { id, email } = person(request);
      const session = sessionOf(request);
      const { current_password: current = '', password } = request.body;
      await attempts.try(session.id, () =>
        provePassword(people, { email, password: current, network: whoTries(request.ip) }),
      );
      await changePassword(people, id, password, session.id);
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleRecover }>(
    '/person/email',
    { bodyLimit, onRequest, schema: { body: ConsoleRecover, response: { 200: ConsoleEndedResponse } } },
    async (request): Promise<ConsoleEndedResponse> => {
      if (!deps.users.delivery.isConfigured) throw errors.noMail();
      const { id, email } = person(request);
      const session = sessionOf(request);
      await attempts.try(session.id, () =>
        provePassword(people, {
          ...{ email, password: request.body.password ?? '' },
          network: whoTries(request.ip),
        }),
      );
      await startEmailChange(people, id, request.body.email);
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleUseCode }>(
    '/person/email/confirm',
    { bodyLimit, onRequest, schema: { body: ConsoleUseCode, response: { 200: ConsoleEndedResponse } } },
    async (request): Promise<ConsoleEndedResponse> => {
      await confirmEmailChange(people, person(request).id, request.body.code);
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleBeginFactor }>(
    '/person/second-factor',
    {
      ...{ bodyLimit, onRequest },
      schema: { body: ConsoleBeginFactor, response: { 200: ConsoleFactorResponse } },
    },
    async (request): Promise<ConsoleFactorResponse> => {
      const { id, email } = person(request);
      await attempts.try(sessionOf(request).id, () =>
        provePassword(people, { email, password: request.body.password, network: whoTries(request.ip) }),
      );
      return { ok: true, ...(await beginFactor(people, { id, email })) };
    },
  );

  app.post<{ Body: ConsoleUseCode }>(
    '/person/second-factor/confirm',
    {
      ...{ bodyLimit, onRequest },
      schema: { body: ConsoleUseCode, response: { 200: ConsoleRecoveryCodesResponse } },
    },
    async (request): Promise<ConsoleRecoveryCodesResponse> => {
      const codes = await attempts.try(sessionOf(request).id, () =>
        confirmFactor(people, person(request).id, request.body.code),
      );
      return { ok: true, recovery_codes: codes };
    },
  );

  app.delete<{ Body: ConsoleRemoveFactor }>(
    '/person/second-factor',
    {
      ...{ bodyLimit, onRequest },
      schema: { body: ConsoleRemoveFactor, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      const { email } = person(request);
      const { password, code } = request.body;
      const given = { email, password, code, network: whoTries(request.ip) };
      const { personId } = await attempts.try(sessionOf(request).id, () => provePerson(people, given));
      await removeFactor(people, personId);
      return { ok: true };
    },
  );
}
