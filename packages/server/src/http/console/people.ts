// What people do over HTTP before they have a session, or with their own data: invitations, recovery, profile.

import {
  ConsoleAccept,
  ConsoleBeginFactor,
  ConsoleChangeProfile,
  ConsoleEndedResponse,
  ConsoleFactorResponse,
  ConsoleInvitationResponse,
  ConsoleOpenInvitation,
  ConsoleProfileResponse,
  ConsoleProveFactor,
  ConsoleRecover,
  ConsoleRecoveryCodesResponse,
  ConsoleSetPassword,
  ConsoleSignedInResponse,
  ConsoleUseCode,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { readEmail, readNewEmail } from '../../access/mail/emails.ts';
import { acceptAs, acceptAsNew, acceptSignedIn, openInvitation } from '../../access/people/invitations.ts';
import { provePassword } from '../../access/people/passwords.ts';
import {
  changeName,
  changePassword,
  confirmEmailChange,
  getProfile,
  startEmailChange,
} from '../../access/people/profile.ts';
import { recover, startRecovery } from '../../access/people/recovery.ts';
import {
  beginFactor,
  confirmFactor,
  removeFactor,
  replaceRecoveryCodes,
  requireOwnFactor,
} from '../../access/people/second-factor.ts';
import { switchAccount } from '../../access/people/sessions.ts';
import { provePerson } from '../../access/people/sign-in.ts';
import { countEmailChange, countRecovery } from '../../access/people/sign-in-attempts.ts';
import { errors } from '../../errors/errors.ts';
import { consoleBodyBytes } from '../../settings/limits/requests.ts';
import type { Deps } from '../deps.ts';
import { whoOf, write } from '../request/audit-entries.ts';
import { identifySession, sessionOf } from './identify.ts';
import { openAttempts, whoTries } from './network-attempts.ts';
import { notePerson } from './note-person.ts';
import { openSession } from './open-session.ts';
import { peopleOf, requirePerson } from './person.ts';

/** The requests come from the page: the scope has checked that. */
export function peopleRoutes(app: FastifyInstance, deps: Deps): void {
  const people = peopleOf(deps);
  const { peopleMail } = deps;
  const attempts = openAttempts(deps.now);
  const requests = openAttempts(deps.now, 'Too many links were requested.');
  const onRequest = async (request: FastifyRequest) => identifySession(request, deps);
  const person = (request: FastifyRequest) => requirePerson(sessionOf(request));

  /** The id of the person, who has proved the password and the second factor. */
  const proveBoth = async (request: FastifyRequest<{ Body: ConsoleProveFactor }>): Promise<string> => {
    const given = { email: person(request).email, ...request.body, network: whoTries(request.ip) };
    const { personId } = await attempts.try(sessionOf(request).id, () => provePerson(people, given));
    return personId;
  };

  app.post<{ Body: ConsoleOpenInvitation }>(
    '/invitation',
    {
      bodyLimit: consoleBodyBytes,
      schema: { body: ConsoleOpenInvitation, response: { 200: ConsoleInvitationResponse } },
    },
    async ({ body, ip }): Promise<ConsoleInvitationResponse> => {
      const found = await attempts.try(whoTries(ip), () => openInvitation(people, body.code));
      const { email, role, account, isKnown, invitedBy } = found;
      return { ok: true, email, role, account, is_known: isKnown, invited_by: invitedBy };
    },
  );

  /** Opens the session too: a code of the second factor counts once, and could not sign in again. */
  app.post<{ Body: ConsoleAccept }>(
    '/invitation/accept',
    {
      bodyLimit: consoleBodyBytes,
      schema: { body: ConsoleAccept, response: { 200: ConsoleSignedInResponse } },
    },
    async (request, reply): Promise<ConsoleSignedInResponse> => {
      const { code, password, second_factor: factor = null } = request.body;
      const network = whoTries(request.ip);
      const session = await attempts.try(network, async () => {
        const { email, isKnown } = await openInvitation(people, code);
        const prove = async () => {
          if (!isKnown) return { ...(await acceptAsNew(people, code, password)), hasSecondFactor: false };
          const person = await provePerson(people, { email, password, code: factor, network });
          return { ...person, ...(await acceptAs(people, code, person.personId)) };
        };
        return openSession(deps, request, reply, { way: 'invitation', email, prove });
      });
      return { ok: true, ...session };
    },
  );

  /** Neither the response nor its time reveals whether somebody has the address: all work comes after it. */
  app.post<{ Body: ConsoleRecover }>(
    '/recovery',
    {
      bodyLimit: consoleBodyBytes,
      schema: { body: ConsoleRecover, response: { 200: ConsoleEndedResponse } },
    },
    async ({ body, ip }): Promise<ConsoleEndedResponse> => {
      if (!peopleMail.isConfigured) throw errors.noMail();
      requests.count(whoTries(ip));
      await countRecovery(deps.control, readEmail(body.email).key, whoTries(ip));
      peopleMail.sendLater(async () => {
        const started = await startRecovery(people, body.email, { isMailed: true });
        if (!started) return null;
        const { email, expiresAt, code } = started;
        return {
          kind: 'member_recovery',
          account: null,
          email,
          expiresAt,
          link: peopleMail.link('recovery', code),
        };
      });
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleSetPassword }>(
    '/recovery/confirm',
    {
      bodyLimit: consoleBodyBytes,
      schema: { body: ConsoleSetPassword, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      const { code = '', password } = request.body;
      const { personId, email } = await attempts.try(whoTries(request.ip), () =>
        recover(people, code, password),
      );
      peopleMail.notifyLater('member_password_changed', email);
      await notePerson(deps, request, { id: personId, email }, 'person.recover');
      return { ok: true };
    },
  );

  app.get(
    '/person',
    { onRequest, schema: { response: { 200: ConsoleProfileResponse } } },
    async (request): Promise<ConsoleProfileResponse> => {
      const profile = await getProfile(deps.control, person(request).id);
      const { id, email, name, hasPassword, hasSecondFactor, accounts } = profile;
      const own = { id, email, name, has_password: hasPassword, has_second_factor: hasSecondFactor };
      return { ok: true, person: own, accounts: [...accounts] };
    },
  );

  app.patch<{ Body: ConsoleChangeProfile }>(
    '/person',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleChangeProfile, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      const name = request.body.name?.trim() ?? null;
      await changeName(deps.control, person(request).id, name);
      await notePerson(deps, request, person(request), 'person.name', { name });
      return { ok: true };
    },
  );

  /** For somebody who is signed in, with or without a password. The session goes on in the new account. */
  app.post<{ Body: ConsoleOpenInvitation }>(
    '/person/invitation',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleOpenInvitation, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      const { id } = person(request);
      const { accountId } = await attempts.try(whoTries(request.ip), () =>
        acceptSignedIn(people, request.body.code, person(request)),
      );
      await switchAccount(deps, sessionOf(request), accountId);
      await write(deps, {
        ...whoOf(request),
        accountId,
        action: 'member.join',
        target: id,
        project: null,
        details: null,
        outcome: 'done',
        error: null,
      });
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleSetPassword }>(
    '/person/password',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleSetPassword, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      const { id, email } = person(request);
      const session = sessionOf(request);
      const { current_password: current = '', password } = request.body;
      await attempts.try(session.id, () =>
        provePassword(people, { email, password: current, network: whoTries(request.ip) }),
      );
      await changePassword(people, id, password, session.id);
      peopleMail.notifyLater('member_password_changed', email);
      await notePerson(deps, request, { id, email }, 'person.password');
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleRecover }>(
    '/person/email',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleRecover, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      if (!peopleMail.isConfigured) throw errors.noMail();
      const { id, email } = person(request);
      const session = sessionOf(request);
      await attempts.try(session.id, () =>
        provePassword(people, {
          email,
          password: request.body.password ?? '',
          network: whoTries(request.ip),
        }),
      );
      // Whoever has the address can connect a provider.
      await requireOwnFactor(deps.control, id, session.id);
      await countEmailChange(deps.control, id, readNewEmail(request.body.email).key);
      const started = await startEmailChange(people, id, request.body.email);
      await peopleMail.send({
        kind: 'member_email',
        account: null,
        email: started.email,
        expiresAt: started.expiresAt,
        sentBy: id,
        link: peopleMail.link('email', started.code),
      });
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleUseCode }>(
    '/person/email/confirm',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleUseCode, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      const { id } = person(request);
      const { before, email } = await confirmEmailChange(people, id, request.body.code);
      if (before !== email) peopleMail.notifyLater('member_email_changed', before);
      await notePerson(deps, request, { id, email: before }, 'person.email', { email });
      return { ok: true };
    },
  );

  app.post<{ Body: ConsoleBeginFactor }>(
    '/person/second-factor',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleBeginFactor, response: { 200: ConsoleFactorResponse } },
    },
    async (request): Promise<ConsoleFactorResponse> => {
      const { id, email } = person(request);
      await attempts.try(sessionOf(request).id, () =>
        provePassword(people, { email, password: request.body.password, network: whoTries(request.ip) }),
      );
      return { ok: true, ...(await beginFactor(people, { id, email }, sessionOf(request).id)) };
    },
  );

  app.post<{ Body: ConsoleUseCode }>(
    '/person/second-factor/confirm',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleUseCode, response: { 200: ConsoleRecoveryCodesResponse } },
    },
    async (request): Promise<ConsoleRecoveryCodesResponse> => {
      const codes = await attempts.try(sessionOf(request).id, () =>
        confirmFactor(people, person(request).id, request.body.code, sessionOf(request).id),
      );
      await notePerson(deps, request, person(request), 'person.second_factor_added');
      return { ok: true, recovery_codes: codes };
    },
  );

  app.post<{ Body: ConsoleProveFactor }>(
    '/person/second-factor/recovery-codes',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleProveFactor, response: { 200: ConsoleRecoveryCodesResponse } },
    },
    async (request): Promise<ConsoleRecoveryCodesResponse> => ({
      ok: true,
      recovery_codes: await replaceRecoveryCodes(people, await proveBoth(request)),
    }),
  );

  app.delete<{ Body: ConsoleProveFactor }>(
    '/person/second-factor',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleProveFactor, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      await removeFactor(people, await proveBoth(request));
      peopleMail.notifyLater('member_second_factor_removed', person(request).email);
      await notePerson(deps, request, person(request), 'person.second_factor_removed');
      return { ok: true };
    },
  );
}
