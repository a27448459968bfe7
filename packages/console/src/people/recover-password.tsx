// The page of a link that sets a new password. All sessions of the person end, so the sign-in comes next.
import { useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { showSignIn, start } from '../session/session.ts';
import { SignInCard } from '../session/sign-in-card.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { isComplete, NewPasswordFields, noPassword } from './new-password.tsx';

export function RecoverPassword({ code }: { code: string }) {
  const [password, setPassword] = useState(noPassword);
  const { error, isBusy, waitS, run } = useAttempt();
  const save = async () => {
    const body = { code, password: password.first };
    const failed = await run(() => sessionRequest('POST', 'recovery/confirm', body));
    if (!failed) showSignIn('Your password is changed. Sign in with the new one.');
  };
  return (
    <SignInCard
      title="Set a new password"
      about="All your sessions end, in every browser."
      error={error}
      onSubmit={() => void save()}
      foot={
        <Button isWide onClick={() => void start()}>
          Go to the console
        </Button>
      }
    >
      <NewPasswordFields value={password} onChange={setPassword} autoFocus />
      <Button
        kind="primary"
        type="submit"
        isBusy={isBusy}
        isWide
        disabled={!isComplete(password) || waitS > 0}
      >
        {attemptLabel('Set the password', waitS)}
      </Button>
    </SignInCard>
  );
}
