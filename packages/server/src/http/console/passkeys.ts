// Passkeys over HTTP: what the browser needs to make or use one, and the list of the person's own.

import {
  AddPasskey,
  ConsoleEndedResponse,
  PasskeyOptionsResponse,
  PasskeyResponse,
  PasskeysResponse,
  RenamePasskey,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  addPasskey,
  beginPasskey,
  beginPasskeySignIn,
  listPasskeys,
  removePasskey,
  renamePasskey,
} from '../../access/people/passkeys.ts';
import { passkeyBodyBytes } from '../../settings/limits/requests.ts';
import type { Deps } from '../deps.ts';
import { identifySession, sessionOf } from './identify.ts';
import { openAttempts } from './network-attempts.ts';
import { notePerson } from './note-person.ts';
import { requireConfirmedPerson, requirePerson } from './person.ts';

/** The requests come from the page: the scope has checked that. */
export function passkeyRoutes(app: FastifyInstance, deps: Deps): void {
  const attempts = openAttempts(deps.now);
  const onRequest = async (request: FastifyRequest) => identifySession(request, deps);
  const personOf = (request: FastifyRequest) => requirePerson(sessionOf(request));
  const confirmedPersonOf = (request: FastifyRequest) => requireConfirmedPerson(deps, sessionOf(request));

  app.post(
    '/passkey/options',
    { bodyLimit: passkeyBodyBytes, schema: { response: { 200: PasskeyOptionsResponse } } },
    async (): Promise<PasskeyOptionsResponse> => ({ ok: true, options: await beginPasskeySignIn(deps) }),
  );

  app.get(
    '/person/passkeys',
    { onRequest, schema: { response: { 200: PasskeysResponse } } },
    async (request): Promise<PasskeysResponse> => ({
      ok: true,
      passkeys: await listPasskeys(deps, personOf(request).id),
    }),
  );

  app.post(
    '/person/passkeys/options',
    { bodyLimit: passkeyBodyBytes, onRequest, schema: { response: { 200: PasskeyOptionsResponse } } },
    async (request): Promise<PasskeyOptionsResponse> => ({
      ok: true,
      options: await beginPasskey(deps, await confirmedPersonOf(request)),
    }),
  );

  app.post<{ Body: AddPasskey }>(
    '/person/passkeys',
    {
      bodyLimit: passkeyBodyBytes,
      onRequest,
      schema: { body: AddPasskey, response: { 201: PasskeyResponse } },
    },
    async (request, reply): Promise<PasskeyResponse> => {
      const person = await confirmedPersonOf(request);
      const { name, answer } = request.body;
      const passkey = await attempts.try(sessionOf(request).id, () =>
        addPasskey(deps, { personId: person.id, sessionId: sessionOf(request).id }, name, answer),
      );
      deps.peopleMail.notifyLater('member_passkey_added', person.email);
      await notePerson(deps, request, person, 'person.passkey_added', { name });
      reply.status(201);
      return { ok: true, passkey };
    },
  );

  app.patch<{ Params: { id: string }; Body: RenamePasskey }>(
    '/person/passkeys/:id',
    {
      bodyLimit: passkeyBodyBytes,
      onRequest,
      schema: { body: RenamePasskey, response: { 200: PasskeyResponse } },
    },
    async (request): Promise<PasskeyResponse> => {
      const person = personOf(request);
      const passkey = await renamePasskey(deps, person.id, request.params.id, request.body.name);
      await notePerson(deps, request, person, 'person.passkey_renamed', { name: passkey.name });
      return { ok: true, passkey };
    },
  );

  app.delete<{ Params: { id: string } }>(
    '/person/passkeys/:id',
    { onRequest, schema: { response: { 200: ConsoleEndedResponse } } },
    async (request): Promise<ConsoleEndedResponse> => {
      const person = await confirmedPersonOf(request);
      await removePasskey(deps, person.id, request.params.id);
      await notePerson(deps, request, person, 'person.passkey_removed');
      return { ok: true };
    },
  );
}
