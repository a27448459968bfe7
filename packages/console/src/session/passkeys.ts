// Passkeys: asks the service for a challenge, and the browser for its answer. Loaded with the first button that needs it. Nothing
// happens if the person closes the browser's own dialog.
import type { PasskeyAnswer, PasskeyOptionsResponse, PasskeyResponse } from '@rowhouse/api';
import {
  type PublicKeyCredentialCreationOptionsJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  startAuthentication,
  startRegistration,
} from '@simplewebauthn/browser';
import { sessionRequest } from '../api/request.ts';

/** null: the person changed their mind. */
export async function answerByPasskey(): Promise<PasskeyAnswer | null> {
  const { options } = await sessionRequest<PasskeyOptionsResponse>('POST', 'passkey/options');
  const optionsJSON = options as unknown as PublicKeyCredentialRequestOptionsJSON;
  const answer = await unlessCancelled(startAuthentication({ optionsJSON }));
  return answer as unknown as PasskeyAnswer | null;
}

/** Whether one was added. */
export async function addPasskey(name: string): Promise<boolean> {
  const { options } = await sessionRequest<PasskeyOptionsResponse>('POST', 'person/passkeys/options');
  const optionsJSON = options as unknown as PublicKeyCredentialCreationOptionsJSON;
  const answer = await unlessCancelled(startRegistration({ optionsJSON }));
  if (!answer) return false;
  await sessionRequest<PasskeyResponse>('POST', 'person/passkeys', { name, answer });
  return true;
}

async function unlessCancelled<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Error && ['NotAllowedError', 'AbortError'].includes(error.name)) return null;
    throw error;
  }
}
