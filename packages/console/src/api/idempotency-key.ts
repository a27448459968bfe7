// The Idempotency-Key of a form: a repeated click or a lost answer never does a thing twice. A request that was refused or has
// succeeded is over, so the form is sent with another key the next time.
import { useRef } from 'react';
import { ApiError } from './error.ts';

export function useIdempotencyKey() {
  const key = useRef(crypto.randomUUID());
  return {
    /** Sends the request. The next one has another key, unless the outcome of this one is unknown. */
    once: async <T>(send: (options: { idempotencyKey: string }) => Promise<T>): Promise<T> => {
      try {
        const answer = await send({ idempotencyKey: key.current });
        key.current = crypto.randomUUID();
        return answer;
      } catch (error) {
        if (error instanceof ApiError && isRefused(error)) key.current = crypto.randomUUID();
        throw error;
      }
    },
  };
}

/**
 * The service keeps these answers for the key. Others say nothing about an earlier attempt whose answer was lost. Not while that
 * attempt runs, and not if it ran or its outcome is unknown.
 */
function isRefused({ status, code, details }: ApiError): boolean {
  const { retryable, ran } = (details ?? {}) as { retryable?: boolean; ran?: boolean };
  const isKept = [400, 409, 422].includes(status) && code !== 'unreachable';
  return isKept && code !== 'outcome_unknown' && !retryable && !ran;
}
