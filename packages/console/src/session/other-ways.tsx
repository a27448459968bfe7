// Further ways to sign in, as far as the service and the browser have them: a passkey, another provider.
import { Button } from '../ui/button.tsx';
import { goToProvider } from './provider.ts';
import { signIn } from './session.ts';
import { useWays } from './use-ways.ts';

type Props = { run: (send: () => Promise<unknown>) => Promise<unknown>; isBusy: boolean };

export function OtherWays({ run, isBusy }: Props) {
  const ways = useWays();
  const byPasskey = async () => {
    const { answerByPasskey } = await import('./passkeys.ts');
    const passkey = await answerByPasskey();
    if (passkey) await signIn({ passkey });
  };
  if (!ways) return null;
  return (
    <>
      {ways.hasPasskeys ? (
        <Button isWide disabled={isBusy} onClick={() => void run(byPasskey)}>
          Sign in with a passkey
        </Button>
      ) : null}
      {ways.provider ? (
        <Button isWide disabled={isBusy} onClick={() => void run(() => goToProvider('sign-in'))}>
          Sign in with {ways.provider}
        </Button>
      ) : null}
    </>
  );
}
