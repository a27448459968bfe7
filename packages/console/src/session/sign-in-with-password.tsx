// Email address and password, and then the code of the second factor if the person has one. The password waits in the memory
// of the page meanwhile, and in no field.
import { lazy, Suspense, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { EmailField } from '../ui/email-field.tsx';
import { CodeField } from './code-field.tsx';
import { PasswordField } from './password-field.tsx';
import { signIn } from './session.ts';
import { SignInCard } from './sign-in-card.tsx';
import { attemptLabel, useAttempt } from './use-attempt.ts';

const OtherWays = lazy(() => import('./other-ways.tsx').then((module) => ({ default: module.OtherWays })));

type Props = { reason: string | null; onKey: () => void; onForgot: () => void };

export function SignInWithPassword({ reason, onKey, onForgot }: Props) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [needsCode, setNeedsCode] = useState(false);
  const { error, setError, isBusy, waitS, run } = useAttempt();
  const submit = async () => {
    const proof = { email: email.trim(), password, ...(needsCode && { code: code.trim() }) };
    const failed = await run(() => signIn(proof));
    if (failed?.code === 'second_factor_required' && !needsCode) {
      setNeedsCode(true);
      setError(null);
    }
    setCode('');
  };
  const restart = () => {
    setNeedsCode(false);
    setPassword('');
    setError(null);
  };
  const button = (
    <Button
      kind="primary"
      type="submit"
      isBusy={isBusy}
      isWide
      disabled={waitS > 0 || (needsCode ? code.trim() === '' : email.trim() === '' || password === '')}
    >
      {attemptLabel('Sign in', waitS)}
    </Button>
  );
  if (needsCode) {
    return (
      <SignInCard
        title="Enter your code"
        about={`Your sign-in as ${email.trim()} needs a second factor.`}
        error={error}
        onSubmit={() => void submit()}
        foot={
          <Button isWide onClick={restart}>
            Sign in as somebody else
          </Button>
        }
      >
        <CodeField value={code} onChange={setCode} />
        {button}
      </SignInCard>
    );
  }
  return (
    <SignInCard
      title="Sign in to Rowhouse"
      about="Real PostgreSQL projects, each behind one small API."
      reason={reason}
      error={error}
      onSubmit={() => void submit()}
      foot={
        <>
          <Suspense fallback={null}>
            <OtherWays run={run} isBusy={isBusy} />
          </Suspense>
          <Button isWide onClick={onKey}>
            Use an API key
          </Button>
          <Button kind="ghost" isWide onClick={onForgot}>
            Forgot your password?
          </Button>
        </>
      }
    >
      <EmailField
        name="email"
        value={email}
        onChange={setEmail}
        autoFocus
        autoComplete="username"
        placeholder="ada@example.com"
      />
      <PasswordField label="Password" value={password} onChange={setPassword} />
      {button}
    </SignInCard>
  );
}
