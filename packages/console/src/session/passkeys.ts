// Passkeys: asks the service for a challenge, and the browser for its answer. Loaded with the first button that needs it.
import type { PasskeyAnswer, PasskeyOptionsResponse, PasskeyResponse } from '@rowhouse/api';
import {
  type PublicKeyCredentialCreationOptionsJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  startAuthentication,
  startRegistration,
} from '@simplewebauthn/browser';
import { sessionRequest } from '../api/request.ts';

export async function answerByPasskey(): Promise<PasskeyAnswer> {
  const { options } = await sessionRequest<PasskeyOptionsResponse>('POST', 'passkey/options');
  const optionsJSON = options as unknown as PublicKeyCredentialRequestOptionsJSON;
  return (await startAuthentication({ optionsJSON })) as unknown as PasskeyAnswer;
}

export async function addPasskey(name: string): Promise<void> {
  const { options } = await sessionRequest<PasskeyOptionsResponse>('POST', 'person/passkeys/options');
  const optionsJSON = options as unknown as PublicKeyCredentialCreationOptionsJSON;
  const answer = await startRegistration({ optionsJSON });
  await sessionRequest<PasskeyResponse>('POST', 'person/passkeys', { name, answer });
}

/** The person closed the browser's own dialog. */
export function isCancelled(error: unknown): boolean {
  return error instanceof Error && ['NotAllowedError', 'AbortError'].includes(error.name);
}
