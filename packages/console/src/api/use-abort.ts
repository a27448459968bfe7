import { useEffect, useRef } from 'react';

/** Each call returns a new signal and aborts the one before it. Unmounting aborts the last one. */
export function useAbort(): () => AbortSignal {
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  return () => {
    running.current?.abort();
    running.current = new AbortController();
    return running.current.signal;
  };
}
