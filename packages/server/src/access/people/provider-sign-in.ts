// Sign-in with another provider. The person's own second factor is required as well, unless the provider has asked for one. The answer of a provider counts once, so that a request without the code gets a proof for the next one.

import { sealBytes, unsealBytes } from '../../control/seal.ts';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { providerProofMinutes } from '../../settings/limits/people.ts';
import { findPerson } from './identities.ts';
import type { Provider } from './provider.ts';
import { type FactorDeps, proveFactor } from './second-factor.ts';

const boundTo = 'proof of a provider';

type Given = Readonly<{
  answer: { flow: string; query: string } | { proof: string };
  code: string | null;
  network: string;
}>;

export async function proveByProvider(
  deps: FactorDeps,
  provider: Provider,
  { answer, code, network }: Given,
): Promise<{ personId: string; hasSecondFactor: boolean }> {
  const proved =
    'proof' in answer ? readProof(deps, provider, answer.proof) : await ask(deps, provider, answer);
  const { personId } = proved;
  if (proved.hasSecondFactor) return { personId, hasSecondFactor: true };
  try {
    return { personId, ...(await proveFactor(deps, personId, code, network)) };
  } catch (error) {
    const isMissing = error instanceof RowhouseError && error.code === 'second_factor_required';
    throw isMissing ? errors.factorMissing(makeProof(deps, personId)) : error;
  }
}

async function ask(deps: FactorDeps, provider: Provider, { flow, query }: { flow: string; query: string }) {
  const identity = await provider.complete(flow, query);
  const { hasSecondFactor } = identity;
  return { personId: await findPerson(deps, provider, identity), hasSecondFactor };
}

function makeProof({ masterKey, now }: FactorDeps, personId: string): string {
  const proof = { personId, until: now() + providerProofMinutes * 60_000 };
  return sealBytes(masterKey, 'sign-in flows', Buffer.from(JSON.stringify(proof)), boundTo).toString(
    'base64url',
  );
}

function readProof({ masterKey, now }: FactorDeps, { name }: Provider, text: string) {
  try {
    const bytes = unsealBytes(masterKey, 'sign-in flows', Buffer.from(text, 'base64url'), boundTo);
    const { personId, until } = JSON.parse(bytes.toString()) as { personId: string; until: number };
    if (until > now()) return { personId, hasSecondFactor: false };
  } catch {
    // Not one of ours.
  }
  throw errors.invalidProviderAnswer(name);
}
