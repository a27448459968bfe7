import { useEffect, useRef } from 'react';

/** A signal for each start. The one before it ends then, and the last one with the component. */
export function useAbort(): () => AbortSignal {
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  return () => {
    running.current?.abort();
    running.current = new AbortController();
    return running.current.signal;
  };
}
