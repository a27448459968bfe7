// The whole console on one screen: what is shown before, during and after a session.
import { QueryClientProvider } from '@tanstack/react-query';
import { lazy, Suspense, useEffect, useState } from 'react';
import { Router } from 'wouter';
import { queryClient } from './api/queries.ts';
import { Routes } from './routes.tsx';
import { ConfirmDialog } from './session/confirm-dialog.tsx';
import {
  followLinks,
  type Session,
  type SessionState,
  start,
  takeEmailCode,
  watchSession,
} from './session/session.ts';
import { ShownOnce } from './session/shown-once.tsx';
import { SignIn } from './session/sign-in.tsx';
import { SessionContext, useSessionState } from './session/use-session.ts';
import { Crash } from './shell/crash.tsx';
import { Shell } from './shell/shell.tsx';
import { ErrorState } from './ui/error-state.tsx';
import { guardHistory, guardNavigation } from './ui/leaving.ts';
import { QuestionDialog } from './ui/question-dialog.tsx';
import { Skeleton } from './ui/skeleton.tsx';
import { Toasts } from './ui/toast.tsx';

const AcceptInvitation = lazy(() =>
  import('./people/accept-invitation.tsx').then((module) => ({ default: module.AcceptInvitation })),
);
const RecoverPassword = lazy(() =>
  import('./people/recover-password.tsx').then((module) => ({ default: module.RecoverPassword })),
);
const ConfirmEmail = lazy(() =>
  import('./profile/confirm-email.tsx').then((module) => ({ default: module.ConfirmEmail })),
);

export function App() {
  const state = useSessionState();
  useEffect(() => {
    void start();
    const stops = [followLinks(), watchSession(), guardHistory()];
    return () => {
      for (const stop of stops) stop();
    };
  }, []);
  return (
    <QueryClientProvider client={queryClient}>
      <Toasts />
      <Suspense fallback={null}>
        <Page state={state} />
      </Suspense>
      <QuestionDialog />
    </QueryClientProvider>
  );
}

function Page({ state }: { state: SessionState }) {
  switch (state.status) {
    case 'starting':
      return null;
    case 'failed':
      return (
        <main className="sign-in">
          <ErrorState error={state.error} onRetry={() => void start()} isPage />
        </main>
      );
    case 'signed-out':
      return <SignIn reason={state.reason} />;
    case 'invited':
      return <AcceptInvitation key={state.code} code={state.code} />;
    case 'recovering':
      return <RecoverPassword key={state.code} code={state.code} />;
    case 'signed-in':
      return <Console key={`${state.session.id} ${state.session.account.id}`} session={state.session} />;
  }
}

function Console({ session }: { session: Session }) {
  // Answers of an earlier session, or of another account, must not be shown in this one.
  useEffect(() => () => queryClient.clear(), []);
  const [emailCode, setEmailCode] = useState<string | null>(null);
  useEffect(() => {
    const code = session.person ? takeEmailCode() : null;
    if (code !== null) setEmailCode(code);
  }, [session]);
  return (
    <SessionContext value={session}>
      <Router base="/console" aroundNav={guardNavigation}>
        <Shell>
          <Crash>
            <Suspense fallback={<Skeleton lines={8} />}>
              <Routes session={session} />
            </Suspense>
          </Crash>
        </Shell>
        <ShownOnce />
      </Router>
      <ConfirmDialog />
      {emailCode !== null ? (
        <Suspense fallback={null}>
          <ConfirmEmail code={emailCode} onClose={() => setEmailCode(null)} />
        </Suspense>
      ) : null}
    </SessionContext>
  );
}
