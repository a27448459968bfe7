// Which further ways to sign in the service has, and which of them work under this address in this browser.
import type { ConsoleWaysResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { sessionRequest } from '../api/request.ts';

type Ways = Pick<ConsoleWaysResponse, 'passkeys' | 'provider' | 'recovery'> & {
  /** Passkeys work here. */
  hasPasskeys: boolean;
};

/** null: not known yet. */
export function useWays(isNeeded = true): Ways | null {
  const { data } = useQuery({
    queryKey: ['ways'],
    queryFn: () => sessionRequest<ConsoleWaysResponse>('GET', 'ways'),
    enabled: isNeeded,
  });
  if (!data) return null;
  return { ...data, hasPasskeys: data.passkeys === location.origin && 'PublicKeyCredential' in window };
}
