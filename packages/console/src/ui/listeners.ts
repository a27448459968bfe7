// Whom a value outside of React tells that it has changed, for useSyncExternalStore.
export function openListeners() {
  const listeners = new Set<() => void>();
  return {
    subscribe: (listener: () => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    tellAll: () => {
      for (const listener of listeners) listener();
    },
  };
}
