// What the functions for end users need: their dependencies and the context of a request.
import type { Control } from '../control/control.ts';
import type { KeyRing } from '../keys/verify.ts';
import type { QueryDeps } from '../query/run.ts';
import type { Delivery } from './delivery.ts';
import type { Hashing } from './hashing.ts';
import type { UserStore } from './store.ts';

export type UserDeps = Readonly<{
  control: Control;
  query: QueryDeps;
  store: UserStore;
  hashing: Hashing;
  keyRing: KeyRing;
  delivery: Delivery;
  refreshKey: Buffer;
  now: () => number;
  /** Reports errors of work that continues after the response. */
  onError: (error: unknown) => void;
}>;

/** The project of a request, and what its key may do. */
export type AuthContext = Readonly<{
  projectId: string;
  accountId: string;
  serverId: number;
  passwordVersion: number;
  slug: string;
  /** The key is publishable: it is in browsers, so everyone has it. */
  isPublic: boolean;
  mayManage: boolean;
  /** The end user's address: the client's with a publishable key, otherwise the one the application sent, or null. */
  address: string | null;
}>;
