import { useState } from 'react';
import { Button } from '../ui/button.tsx';
import { Field } from '../ui/field.tsx';
import { signIn } from './session.ts';
import { SignInCard } from './sign-in-card.tsx';
import { attemptLabel, useAttempt } from './use-attempt.ts';

type Props = { reason: string | null; onPassword: () => void };

export function SignInWithKey({ reason, onPassword }: Props) {
  const [apiKey, setApiKey] = useState('');
  const { error, isBusy, waitS, run } = useAttempt();
  return (
    <SignInCard
      title="Sign in to Rowhouse"
      about="With an API key of the account or of a project."
      reason={reason}
      error={error}
      onSubmit={() => void run(() => signIn({ api_key: apiKey.trim() }))}
      foot={
        <>
          <p>
            The service prints a sign-in link when it starts. The key is exchanged for a session of at most 12
            hours and is not stored in the browser.
          </p>
          <Button isWide onClick={onPassword}>
            Use an email address
          </Button>
        </>
      }
    >
      <Field
        label="API key"
        type="password"
        value={apiKey}
        onChange={setApiKey}
        autoFocus
        required
        autoComplete="current-password"
        placeholder="rh_acct_… or rh_proj_…"
        help="The account key manages all projects. A project key opens one project."
        mono
      />
      <Button
        kind="primary"
        type="submit"
        isBusy={isBusy}
        isWide
        disabled={apiKey.trim() === '' || waitS > 0}
      >
        {attemptLabel('Sign in', waitS)}
      </Button>
    </SignInCard>
  );
}
