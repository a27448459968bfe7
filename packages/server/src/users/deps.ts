// What users' functions are given.
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
  /** For what happens after the answer. */
  onError: (error: unknown) => void;
}>;

/** The project that a request is about, and by what kind of key. */
export type AuthContext = Readonly<{
  projectId: string;
  passwordVersion: number;
  slug: string;
  /** The key is in browsers: everybody has it. */
  isPublic: boolean;
  mayManage: boolean;
  /** The end user's: where a request with a public key comes from. Of another key, what the application says, or null. */
  address: string | null;
}>;
