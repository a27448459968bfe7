// The page of an invitation: who invites whom, to which account and with which role. A new person chooses a password; one who
// exists enters the present one.
import type { ConsoleInvitationResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { CodeField } from '../session/code-field.tsx';
import { PasswordField } from '../session/password-field.tsx';
import { enter, type NewSession, start } from '../session/session.ts';
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
  if (!data) {
    return error ? (
      <SignInCard title="Invitation" error={error} foot={<Leave />} />
    ) : (
      <SignInCard title="Invitation" about="Reading the invitation…" />
    );
  }
  return <Accept code={code} invitation={data} />;
}

function Accept({ code, invitation }: { code: string; invitation: ConsoleInvitationResponse }) {
  const { email, role, account, is_known: isKnown, invited_by: inviter } = invitation;
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
      about={
        <>
          {inviter ?? 'An admin of the account'} invites you as <b>{role}</b>. {roleTexts[role]}
        </>
      }
      error={error}
      onSubmit={() => void accept()}
      foot={<Leave />}
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
