// Sign-in with another provider, by OpenID Connect: discovery, PKCE, state and nonce. What must be remembered between the two
// steps goes to the page sealed, which keeps it in its tab: an answer that another browser or tab got does not count.
import type { Configuration, CustomFetch } from 'openid-client';
import type { Control } from '../../control/control.ts';
import { sealBytes, unsealBytes } from '../../control/seal.ts';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { isChallenge, newChallenge, useChallenge } from './challenges.ts';

export type ProviderConfig = Readonly<{
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** On the button. */
  name: string;
  /** People with a verified address of one of these domains need no invitation. */
  domains: readonly string[];
}>;
export type Identity = Readonly<{
  issuer: string;
  subject: string;
  /** null: the provider has none, or has not verified it. */
  email: string | null;
  /** The provider says so. */
  hasSecondFactor: boolean;
}>;
export type Provider = {
  readonly name: string;
  readonly issuer: string;
  readonly domains: readonly string[];
  begin(): Promise<{ url: string; flow: string }>;
  /** `query`: with which the provider sent the browser back. */
  complete(flow: string, query: string): Promise<Identity>;
};
type Deps = { control: Control; masterKey: Buffer; now: () => number };
type Flow = { nonce: string; verifier: string };

const purpose = 'sign in with a provider';
const timeoutS = 10;
const discoveredMs = 60 * 60_000;
export const returnPath = 'signed-in';

/** `page`: the address of the console, where the provider sends the browser back. */
export function openProvider(deps: Deps, config: ProviderConfig, page: string): Provider {
  const { issuer, name, domains } = config;
  const redirectUri = new URL(returnPath, page).href;
  let found: { configuration: Promise<Configuration>; at: number } | null = null;
  /** Kept for a while: the provider may change its keys and addresses. What failed is not kept. */
  const discovered = async (): Promise<Configuration> => {
    if (found === null || deps.now() - found.at > discoveredMs) {
      const attempt = { configuration: discover(config), at: deps.now() };
      found = attempt;
      attempt.configuration.catch(() => {
        if (found === attempt) found = null;
      });
    }
    return found.configuration;
  };
  return {
    name,
    issuer,
    domains,
    begin: async () => {
      const client = await openIdClient();
      const configuration = await discovered().catch((error) => fail(name, error));
      const flow: Flow = { nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() };
      const state = newChallenge(deps, purpose).toString('base64url');
      const url = client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: 'openid email',
        response_type: 'code',
        state,
        nonce: flow.nonce,
        code_challenge_method: 'S256',
        code_challenge: await client.calculatePKCECodeChallenge(flow.verifier),
      });
      return { url: url.href, flow: sealFlow(deps, flow, state) };
    },
    complete: async (sealed, query) => {
      const answer = new URL(redirectUri);
      answer.search = query;
      const state = answer.searchParams.get('state') ?? '';
      const flow = isChallenge(deps, purpose, state) ? unsealFlow(deps, sealed, state) : null;
      // Before the provider is asked: an answer counts once, whatever becomes of it.
      if (!flow || !(await useChallenge(deps, state))) throw errors.invalidProviderAnswer(name);
      const configuration = await discovered().catch((error) => fail(name, error));
      return identify(configuration, answer, flow, state).catch((error) => fail(name, error));
    },
  };
}

async function identify(
  configuration: Configuration,
  answer: URL,
  { nonce, verifier }: Flow,
  state: string,
): Promise<Identity> {
  const client = await openIdClient();
  const tokens = await client.authorizationCodeGrant(configuration, answer, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (!claims) throw new Error('The provider sent no ID token.');
  const { iss, sub, amr } = claims;
  // Many providers give the address only here.
  const more =
    claims.email === undefined && configuration.serverMetadata().userinfo_endpoint
      ? await client.fetchUserInfo(configuration, tokens.access_token, sub)
      : claims;
  const isVerified = more.email_verified === true && typeof more.email === 'string';
  return {
    issuer: iss,
    subject: sub,
    email: isVerified ? String(more.email) : null,
    hasSecondFactor: Array.isArray(amr) && amr.includes('mfa'),
  };
}

async function discover({ issuer, clientId, clientSecret }: ProviderConfig): Promise<Configuration> {
  const client = await openIdClient();
  const url = new URL(issuer);
  // Also of tokens that come directly from the provider, which the standard leaves to TLS.
  const execute = [client.enableNonRepudiationChecks];
  if (url.protocol === 'http:') execute.push(client.allowInsecureRequests);
  return client.discovery(url, clientId, clientSecret, client.ClientSecretBasic(clientSecret), {
    execute,
    timeout: timeoutS,
    [client.customFetch]: tellOutage,
  });
}

/** A provider that does not answer is no fault of the person. */
const tellOutage: CustomFetch = async (url, options) => {
  const answer = await fetch(url, options as RequestInit).catch((cause: unknown) => {
    throw new Outage('The provider does not answer.', { cause });
  });
  if (answer.status >= 500) throw new Outage(`The provider answered with status ${answer.status}.`);
  return answer;
};

class Outage extends Error {
  override readonly name = 'Outage';
}

function fail(name: string, error: unknown): never {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof RowhouseError) throw cause;
    if (cause instanceof Outage) throw errors.providerUnavailable(name, error);
  }
  throw errors.invalidProviderAnswer(name, error);
}

/** Bound to the state: it opens only together with the answer to this very request. */
function sealFlow({ masterKey }: Deps, flow: Flow, state: string): string {
  return sealBytes(masterKey, 'sign-in flows', Buffer.from(JSON.stringify(flow)), state).toString(
    'base64url',
  );
}

function unsealFlow({ masterKey }: Deps, sealed: string, state: string): Flow | null {
  try {
    const bytes = unsealBytes(masterKey, 'sign-in flows', Buffer.from(sealed, 'base64url'), state);
    return JSON.parse(bytes.toString());
  } catch {
    return null;
  }
}

/** Loaded at the first use: most installations never need it. */
function openIdClient() {
  return import('openid-client');
}
