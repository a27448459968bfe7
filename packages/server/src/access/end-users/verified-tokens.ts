// Access tokens that were verified, so that the signature of a token is computed once and not with every request. A token
// counts as verified only as the very text that was verified, for its project, until it expires, and as long as the key that
// signed it is one of the project's: the change feed removes that key from the ring, on every process.
import { LRUCache } from 'lru-cache';
import type { KeyRing } from '../../keys/verify.ts';
import type { SignedInUser } from '../../servers/databases/login.ts';
import { type Claims, issuerOf, readToken } from './access-tokens.ts';

export type TokenOwner = Readonly<{ projectId: string; slug: string }>;

/** Its user must be checked in the statement that it runs: the session may have ended. */
export type VerifiedToken = Readonly<{ claims: Claims; user: SignedInUser }>;

export type VerifiedTokens = {
  /** Throws unless this service issued the token for the project and it is valid now. */
  verify(owner: TokenOwner, token: string): Promise<VerifiedToken>;
  /** The same without waiting; null if the token or its key is not known. */
  recall(owner: TokenOwner, token: string): VerifiedToken | null;
};

type Keys = Awaited<ReturnType<KeyRing['signingKeys']>>;
type Known = VerifiedToken & TokenOwner & Readonly<{ kid: string; secret: string }>;

/** The characters of all tokens together; one has a few hundred. */
const maxCharacters = 8_000_000;

export function openVerifiedTokens(
  keyRing: Pick<KeyRing, 'signingKeys' | 'recallSigningKeys'>,
  now: () => number,
): VerifiedTokens {
  const verified = new LRUCache<string, Known>({
    maxSize: maxCharacters,
    sizeCalculation: (_known, token) => token.length,
  });
  const find = (keys: Keys, { projectId, slug }: TokenOwner, token: string): VerifiedToken | null => {
    const known = verified.get(token);
    if (known?.projectId !== projectId || known.slug !== slug || known.claims.exp * 1000 <= now())
      return null;
    return secretOf(keys, known.kid, now()) === known.secret ? known : null;
  };
  return {
    recall: (owner, token) => {
      const keys = keyRing.recallSigningKeys(owner.projectId);
      return keys && find(keys, owner, token);
    },
    verify: async (owner, token) => {
      const keys = await keyRing.signingKeys(owner.projectId);
      const known = find(keys, owner, token);
      if (known) return known;
      let used = { kid: '', secret: '' };
      const claims = readToken(token, {
        issuer: issuerOf(owner.slug),
        now: now(),
        secretOf: (kid) => {
          const secret = secretOf(keys, kid, now());
          used = { kid, secret: secret ?? '' };
          return secret;
        },
      });
      const user = {
        role: 'authenticated',
        sessionId: claims.sid,
        userId: claims.sub,
        claims: JSON.stringify(claims),
        email: claims.email,
        claimedRole: claims.role,
      } as const;
      const { projectId, slug } = owner;
      verified.set(token, { projectId, slug, ...used, claims, user });
      return { claims, user };
    },
  };
}

/** null: the project has no such key now. */
function secretOf(keys: Keys, kid: string, at: number): string | null {
  return (
    keys.find(({ id, expiresAt }) => id === kid && (expiresAt === null || expiresAt > at))?.secret ?? null
  );
}
