// One attempt to prove something, such as a password: while it runs, when it was refused, and how long to wait after too many.
import { useEffect, useState } from 'react';
import { type ApiError, toApiError } from '../api/error.ts';

export function useAttempt() {
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [waitS, setWaitS] = useState(0);
  useEffect(() => {
    if (waitS <= 0) return;
    const timer = setTimeout(() => setWaitS(waitS - 1), 1_000);
    return () => clearTimeout(timer);
  }, [waitS]);
  const run = async (send: () => Promise<unknown>): Promise<ApiError | null> => {
    setBusy(true);
    setError(null);
    try {
      await send();
      return null;
    } catch (problem) {
      const failed = toApiError(problem);
      setError(failed);
      setWaitS(failed.retryAfterS ?? 0);
      return failed;
    } finally {
      setBusy(false);
    }
  };
  return { error, setError, isBusy, waitS, run };
}

/** "Sign in", or "Wait 12 s". */
export const attemptLabel = (label: string, waitS: number) => (waitS > 0 ? `Wait ${waitS} s` : label);
