// Sign-in with another provider over HTTP, and which ways to sign in there are.

import {
  ConsoleEndedResponse,
  ConsoleProviderAnswer,
  ConsoleProviderLinkResponse,
  ConsoleProviderResponse,
  ConsoleWaysResponse,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isLinked, linkIdentity, unlinkIdentities } from '../../access/people/identities.ts';
import { consoleBodyBytes } from '../../settings/limits/requests.ts';
import type { Deps } from '../deps.ts';
import { identifySession, sessionOf } from './identify.ts';
import { openAttempts, whoTries } from './network-attempts.ts';
import { notePerson } from './note-person.ts';
import { requireConfirmedPerson, requirePerson, requireProvider } from './person.ts';

/** The requests come from the page: the scope has checked that. */
export function providerRoutes(app: FastifyInstance, deps: Deps): void {
  const attempts = openAttempts(deps.now);
  const onRequest = async (request: FastifyRequest) => identifySession(request, deps);

  app.get(
    '/ways',
    { schema: { response: { 200: ConsoleWaysResponse } } },
    async (): Promise<ConsoleWaysResponse> => ({
      ok: true,
      passkeys: deps.relyingParty?.origin ?? null,
      provider: deps.provider?.name ?? null,
      recovery: deps.peopleMail.isConfigured,
    }),
  );

  app.post(
    '/provider',
    { bodyLimit: consoleBodyBytes, schema: { response: { 200: ConsoleProviderResponse } } },
    async ({ ip }): Promise<ConsoleProviderResponse> => ({
      ok: true,
      ...(await attempts.try(whoTries(ip), () => requireProvider(deps).begin())),
    }),
  );

  app.get(
    '/person/provider',
    { onRequest, schema: { response: { 200: ConsoleProviderLinkResponse } } },
    async (request): Promise<ConsoleProviderLinkResponse> => {
      const { id } = requirePerson(sessionOf(request));
      const { provider } = deps;
      if (!provider) return { ok: true, provider: null };
      const is_linked = await isLinked(deps, id, provider.issuer);
      return { ok: true, provider: { name: provider.name, is_linked } };
    },
  );

  app.post<{ Body: ConsoleProviderAnswer }>(
    '/person/provider',
    {
      bodyLimit: consoleBodyBytes,
      onRequest,
      schema: { body: ConsoleProviderAnswer, response: { 200: ConsoleEndedResponse } },
    },
    async (request): Promise<ConsoleEndedResponse> => {
      const person = await requireConfirmedPerson(deps, sessionOf(request));
      const { flow, query } = request.body;
      const identity = await attempts.try(sessionOf(request).id, () =>
        requireProvider(deps).complete(flow, query),
      );
      await linkIdentity(deps, person.id, identity);
      deps.peopleMail.notifyLater('member_provider_connected', person.email);
      await notePerson(deps, request, person, 'person.provider_connected');
      return { ok: true };
    },
  );

  app.delete(
    '/person/provider',
    { onRequest, schema: { response: { 200: ConsoleEndedResponse } } },
    async (request): Promise<ConsoleEndedResponse> => {
      const person = await requireConfirmedPerson(deps, sessionOf(request));
      await unlinkIdentities(deps, person.id);
      await notePerson(deps, request, person, 'person.provider_disconnected');
      return { ok: true };
    },
  );
}
