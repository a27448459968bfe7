// What the functions for end users need.
import type { Control } from '../../control/control.ts';
import type { KeyRing } from '../../keys/verify.ts';
import type { QueryDeps } from '../../query/run.ts';
import type { Delivery } from '../mail/delivery.ts';
import type { Hashing } from '../passwords/hashing.ts';
import type { UserStore } from './store.ts';
import type { VerifiedTokens } from './verified-tokens.ts';

export type UserDeps = Readonly<{
  control: Control;
  query: QueryDeps;
  store: UserStore;
  hashing: Hashing;
  keyRing: KeyRing;
  tokens: VerifiedTokens;
  delivery: Delivery;
  refreshKey: Buffer;
  now: () => number;
  /** Reports errors of work that continues after the response. */
  onError: (error: unknown) => void;
}>;
