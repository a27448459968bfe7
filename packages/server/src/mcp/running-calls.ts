// Calls that run, so that a notification can cancel one. The notification is a request of its own, and names the call by the
// number that the agent gave it. Other agents use the same numbers: the id of the session distinguishes them. A process knows
// only its own calls.
export type RunningCalls = {
  /** `session` null: the agent has none. Its call ends when its connection does. */
  add(caller: string, session: string | null, id: unknown): Call;
  cancel(caller: string, session: string | null, id: unknown): void;
};
type Call = { signal: AbortSignal; stop(): void; end(): void };

export function openRunningCalls(): RunningCalls {
  const calls = new Map<string, AbortController>();
  const nameOf = (...parts: unknown[]) => JSON.stringify(parts);
  return {
    add: (caller, session, id) => {
      const stopping = new AbortController();
      const name = session === null ? null : nameOf(caller, session, id);
      if (name !== null) calls.set(name, stopping);
      return {
        signal: stopping.signal,
        stop: () => stopping.abort(),
        // A further call with the same number has taken its place.
        end: () => {
          if (name !== null && calls.get(name) === stopping) calls.delete(name);
        },
      };
    },
    cancel: (caller, session, id) => {
      if (session !== null) calls.get(nameOf(caller, session, id))?.abort();
    },
  };
}
