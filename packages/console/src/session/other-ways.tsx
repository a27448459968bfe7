// Further ways to sign in, as far as the service and the browser have them: a passkey, another provider.
import type { ConsoleWaysResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { sessionRequest } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { goToProvider } from './provider.ts';
import { signIn } from './session.ts';

type Props = { run: (send: () => Promise<unknown>) => Promise<unknown>; isBusy: boolean };

export function OtherWays({ run, isBusy }: Props) {
  const { data } = useQuery({
    queryKey: ['ways'],
    queryFn: () => sessionRequest<ConsoleWaysResponse>('GET', 'ways'),
  });
  const byPasskey = async () => {
    const { answerByPasskey, isCancelled } = await import('./passkeys.ts');
    const passkey = await answerByPasskey().catch((error: unknown) => {
      if (isCancelled(error)) return null;
      throw error;
    });
    if (passkey) await signIn({ passkey });
  };
  if (!data) return null;
  return (
    <>
      {data.passkeys === location.origin && 'PublicKeyCredential' in window ? (
        <Button isWide disabled={isBusy} onClick={() => void run(byPasskey)}>
          Sign in with a passkey
        </Button>
      ) : null}
      {data.provider ? (
        <Button isWide disabled={isBusy} onClick={() => void run(() => goToProvider('sign-in'))}>
          Sign in with {data.provider}
        </Button>
      ) : null}
    </>
  );
}
