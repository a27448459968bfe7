import { useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { EmailField } from '../ui/email-field.tsx';
import { SignInCard } from './sign-in-card.tsx';
import { attemptLabel, useAttempt } from './use-attempt.ts';

export function ForgotPassword({ onBack }: { onBack: () => void }) {
  const [email, setEmail] = useState('');
  const [isSent, setSent] = useState(false);
  const { error, isBusy, waitS, run } = useAttempt();
  const submit = async () => {
    const failed = await run(() => sessionRequest('POST', 'recovery', { email: email.trim() }));
    if (!failed) setSent(true);
  };
  return (
    <SignInCard
      title="Forgot your password?"
      about="You get an email with a link that sets a new password once."
      reason={isSent ? `If ${email.trim()} belongs to a member, the mail is on its way.` : null}
      error={error}
      onSubmit={() => void submit()}
      foot={
        <Button isWide onClick={onBack}>
          Back to the sign-in
        </Button>
      }
    >
      <EmailField value={email} onChange={setEmail} autoFocus autoComplete="username" />
      <Button kind="primary" type="submit" isBusy={isBusy} isWide disabled={waitS > 0 || email.trim() === ''}>
        {attemptLabel('Send a link', waitS)}
      </Button>
    </SignInCard>
  );
}
