// The page before the session. It remembers the way in which somebody signed in last, not who or with what.
import { lazy, Suspense, useState } from 'react';
import { takeAnswer } from './provider.ts';
import { SignInWithKey } from './sign-in-with-key.tsx';
import { SignInWithPassword } from './sign-in-with-password.tsx';

const ForgotPassword = lazy(() =>
  import('./forgot-password.tsx').then((module) => ({ default: module.ForgotPassword })),
);

const SignInWithProvider = lazy(() =>
  import('./sign-in-with-provider.tsx').then((module) => ({ default: module.SignInWithProvider })),
);

type Way = 'password' | 'key' | 'forgot';
const storageKey = 'rowhouse.sign-in';

export function SignIn({ reason }: { reason: string | null }) {
  const [way, setWay] = useState<Way>(localStorage.getItem(storageKey) === 'key' ? 'key' : 'password');
  const choose = (next: Way) => {
    setWay(next);
    if (next === 'key') localStorage.setItem(storageKey, next);
    else localStorage.removeItem(storageKey);
  };
  const [answer, setAnswer] = useState(() => takeAnswer('sign-in'));
  if (answer)
    return (
      <Suspense fallback={null}>
        <SignInWithProvider answer={answer} onBack={() => setAnswer(null)} />
      </Suspense>
    );
  if (way === 'key') return <SignInWithKey reason={reason} onPassword={() => choose('password')} />;
  if (way === 'forgot')
    return (
      <Suspense fallback={null}>
        <ForgotPassword onBack={() => choose('password')} />
      </Suspense>
    );
  return <SignInWithPassword reason={reason} onKey={() => choose('key')} onForgot={() => choose('forgot')} />;
}
