// Where an answer goes: a sink with a pace of its own, and the caller behind it who may hang up.

/** `write` says whether there is room for more; `drained` calls back when there is again. */
export type Sink = {
  /** `onSent`: the bytes are sent, and their memory may be reused. */
  write(bytes: Buffer, onSent: (error?: Error | null) => void): boolean;
  drained(carryOn: () => void): void;
};

export type Reader = Sink & {
  /** Part of the answer has been sent. */
  readonly hasBegun: boolean;
  /** The caller has hung up, or has already been told that the request took too long. */
  readonly isGone: boolean;
  /** How long until the caller has to be answered. */
  readonly leftMs: number;
  /** When the request arrived, by performance.now(). Its time counts from there, not from when a session was free. */
  startedAt: number;
  /** Set before anything is sent that may change the project. */
  mayHaveChanged: boolean;
};

/** For statements of the service itself: they start now, and nobody reads their answer as it arrives. */
export function noReader(): Reader {
  return { ...nobody, startedAt: performance.now() };
}

const nobody: Omit<Reader, 'startedAt'> = {
  hasBegun: false,
  isGone: false,
  mayHaveChanged: false,
  leftMs: 5_000,
  write: () => true,
  drained: () => {},
};
