// The page of an invitation: who invites whom, to which account and with which role. A new person chooses a password. A
// person who exists enters the current one, or is signed in already, in whatever way.
import type { ConsoleInvitationResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { CodeField } from '../session/code-field.tsx';
import { PasswordField } from '../session/password-field.tsx';
import {
  enter,
  findOpenSession,
  joinSignedIn,
  type NewSession,
  signInFirst,
  start,
} from '../session/session.ts';
import { SignInCard } from '../session/sign-in-card.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { Field } from '../ui/field.tsx';
import { isComplete, NewPasswordFields, noPassword } from './new-password.tsx';
import { roleTexts } from './role-texts.ts';

export function AcceptInvitation({ code }: { code: string }) {
  const { data, error } = useQuery({
    queryKey: ['invitation', code],
    queryFn: () => sessionRequest<ConsoleInvitationResponse>('POST', 'invitation', { code }),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const { data: session } = useQuery({
    queryKey: ['invited-session', code],
    queryFn: findOpenSession,
    // Not cached: another person may sign in meanwhile.
    gcTime: 0,
  });
  if (!data || session === undefined) {
    return error ? (
      <SignInCard title="Invitation" error={error} foot={<Leave />} />
    ) : (
      <SignInCard title="Invitation" about="Reading the invitation…" />
    );
  }
  const own = session?.person?.email ?? null;
  const isOwn = own?.toLowerCase() === data.email.toLowerCase();
  return isOwn ? (
    <JoinSignedIn code={code} invitation={data} />
  ) : (
    <Accept code={code} invitation={data} own={own} />
  );
}

type Props = { code: string; invitation: ConsoleInvitationResponse };

function JoinSignedIn({ code, invitation }: Props) {
  const { error, isBusy, run } = useAttempt();
  return (
    <SignInCard
      title={`Join ${invitation.account.name}`}
      about={<About invitation={invitation} />}
      error={error}
      onSubmit={() => void run(() => joinSignedIn(code))}
      foot={<Leave />}
    >
      <p className="muted">You are signed in as {invitation.email}.</p>
      <Button kind="primary" type="submit" isBusy={isBusy} isWide>
        Join
      </Button>
    </SignInCard>
  );
}

function About({ invitation: { role, invited_by: inviter } }: Pick<Props, 'invitation'>) {
  return (
    <>
      {inviter ?? 'An admin of the account'} invites you as <b>{role}</b>. {roleTexts[role]}
    </>
  );
}

/** `own`: the address of another person who is signed in in this browser, or null. */
function Accept({ code, invitation, own }: Props & { own: string | null }) {
  const { email, account, is_known: isKnown } = invitation;
  const [password, setPassword] = useState(noPassword);
  const [factor, setFactor] = useState('');
  const [needsFactor, setNeedsFactor] = useState(false);
  const { error, setError, isBusy, waitS, run } = useAttempt();
  const accept = async () => {
    const body = { code, password: password.first, ...(needsFactor && { second_factor: factor.trim() }) };
    const failed = await run(async () =>
      enter(await sessionRequest<NewSession>('POST', 'invitation/accept', body)),
    );
    if (failed?.code === 'second_factor_required' && !needsFactor) {
      setNeedsFactor(true);
      setError(null);
    }
    setFactor('');
  };
  const isReady = isKnown ? password.first !== '' : isComplete(password);
  return (
    <SignInCard
      title={`Join ${account.name}`}
      about={<About invitation={invitation} />}
      reason={own ? `You are signed in as ${own}. This invitation is for ${email}.` : null}
      error={error}
      onSubmit={() => void accept()}
      foot={
        <>
          {isKnown ? (
            <Button isWide onClick={() => signInFirst(code)}>
              Sign in another way
            </Button>
          ) : null}
          <Leave />
        </>
      }
    >
      <Field
        label="Email address"
        type="email"
        value={email}
        onChange={() => {}}
        readOnly
        autoComplete="username"
        help={isKnown ? 'You have signed in with this address before.' : 'You sign in with it from now on.'}
      />
      {needsFactor ? <CodeField value={factor} onChange={setFactor} /> : null}
      {!needsFactor && isKnown ? (
        <PasswordField
          value={password.first}
          onChange={(first) => setPassword({ first, second: first })}
          autoFocus
        />
      ) : null}
      {!needsFactor && !isKnown ? (
        <NewPasswordFields value={password} onChange={setPassword} label="Choose a password" autoFocus />
      ) : null}
      <Button
        kind="primary"
        type="submit"
        isBusy={isBusy}
        isWide
        disabled={!isReady || waitS > 0 || (needsFactor && factor.trim() === '')}
      >
        {attemptLabel('Join', waitS)}
      </Button>
    </SignInCard>
  );
}

/** A session that was open before goes on. */
function Leave() {
  return (
    <Button isWide onClick={() => void start()}>
      Go to the console
    </Button>
  );
}
