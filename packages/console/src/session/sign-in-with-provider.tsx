// Back from another provider: its answer opens the session, after the code of an own second factor if there is one.
import { useEffect, useRef, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { CodeField } from './code-field.tsx';
import type { ProviderAnswer } from './provider.ts';
import { signIn } from './session.ts';
import { SignInCard } from './sign-in-card.tsx';
import { attemptLabel, useAttempt } from './use-attempt.ts';

type Props = { answer: ProviderAnswer; onBack: () => void };

export function SignInWithProvider({ answer, onBack }: Props) {
  const [code, setCode] = useState('');
  const [proof, setProof] = useState<string | null>(null);
  const { error, setError, isBusy, waitS, run } = useAttempt();
  const hasBegun = useRef(false);
  const send = async (given: Parameters<typeof signIn>[0]) => {
    const failed = await run(() => signIn(given));
    const details = failed?.details as { proof?: string } | undefined;
    if (failed?.code === 'second_factor_required' && details?.proof) {
      setProof(details.proof);
      setError(null);
    }
    setCode('');
  };
  useEffect(() => {
    // The answer counts once.
    if (hasBegun.current) return;
    hasBegun.current = true;
    void send({ provider: answer });
  });
  return (
    <SignInCard
      title={proof ? 'Enter your code' : 'Sign in to Rowhouse'}
      about={proof ? 'Your sign-in needs a second factor.' : isBusy ? 'One moment …' : undefined}
      error={error}
      onSubmit={() => proof && void send({ provider: { proof }, code: code.trim() })}
      foot={
        <Button isWide onClick={onBack}>
          Sign in another way
        </Button>
      }
    >
      {proof ? (
        <>
          <CodeField value={code} onChange={setCode} />
          <Button
            kind="primary"
            type="submit"
            isBusy={isBusy}
            isWide
            disabled={waitS > 0 || code.trim() === ''}
          >
            {attemptLabel('Sign in', waitS)}
          </Button>
        </>
      ) : null}
    </SignInCard>
  );
}
