// What the proxy counts, for metrics. Each process counts its own.

/**
 * Why a connection was refused. `startup`: the first packet was malformed; `password` and `postgres`: PostgreSQL refused
 * the login, because of the password or for another reason.
 */
export type Refusal = (typeof refusals)[number];
const refusals = [
  ...['half_open', 'limit', 'name', 'password', 'plaintext', 'postgres', 'startup', 'timeout', 'tls'],
  'unavailable',
] as const;

export type Counts = {
  /** Now open and logged in. */
  open: number;
  /** Connections, by what became of them. */
  connections: Record<'accepted' | Refusal, number>;
  /** From clients, and to them. */
  bytes: { received: number; sent: number };
  cancels: { sent: number; dropped: number };
};

export function newCounts(): Counts {
  const results = ['accepted', ...refusals].map((result) => [result, 0]);
  return {
    open: 0,
    connections: Object.fromEntries(results),
    bytes: { received: 0, sent: 0 },
    cancels: { sent: 0, dropped: 0 },
  };
}
