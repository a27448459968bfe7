// Asks the person to prove again who they are: by the API key, the password or a passkey. The request that needed it waits here.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { personQuery } from '../api/queries.ts';
import { hooks, type Wanted } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Field } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { HiddenUsername } from './hidden-username.tsx';
import { confirmSession, signOut } from './session.ts';
import { attemptLabel, useAttempt } from './use-attempt.ts';
import { useSession } from './use-session.ts';
import { useWays } from './use-ways.ts';

type Asked = { wanted: Wanted; settle: (confirmed: boolean) => void };

export function ConfirmDialog() {
  const [asked, setAsked] = useState<Asked | null>(null);
  useEffect(() => {
    hooks.confirm = (wanted) => new Promise<boolean>((settle) => setAsked({ wanted, settle }));
    return () => {
      hooks.confirm = async () => false;
    };
  }, []);
  if (!asked) return null;
  const finish = (confirmed: boolean) => {
    asked.settle(confirmed);
    setAsked(null);
  };
  return <Confirmation wanted={asked.wanted} onDone={() => finish(true)} onClose={() => finish(false)} />;
}

type Props = { wanted: Wanted; onDone: () => void; onClose: () => void };

function Confirmation({ wanted, onDone, onClose }: Props) {
  const { person } = useSession();
  const [secret, setSecret] = useState('');
  const { error, isBusy, waitS, run } = useAttempt();
  const ways = useWays(person !== null);
  const { data: profile } = useQuery({ ...personQuery(), enabled: person !== null });
  const hasPasskeys = ways?.hasPasskeys === true;
  // A password proves no second factor, and not everybody has a password.
  const asksSecret = person === null || (wanted === 'person' && profile?.person.has_password !== false);
  const bySecret = async () => {
    const proof = person ? { password: secret } : { api_key: secret.trim() };
    if (!(await run(() => confirmSession(proof)))) onDone();
  };
  const byPasskey = async () => {
    const { answerByPasskey } = await import('./passkeys.ts');
    let isDone = false;
    await run(async () => {
      const passkey = await answerByPasskey();
      if (!passkey) return;
      await confirmSession({ passkey });
      isDone = true;
    });
    if (isDone) onDone();
  };
  const form = { title: 'Confirm that it is you', error, isBusy, onClose, isBrief: true };
  if (asksSecret) {
    return (
      <FormDialog
        {...form}
        action={attemptLabel('Confirm', waitS)}
        isReady={waitS === 0}
        onSubmit={bySecret}
        more={
          hasPasskeys ? (
            <Button disabled={isBusy} onClick={() => void byPasskey()}>
              Use a passkey
            </Button>
          ) : null
        }
      >
        <p className="muted">
          Enter your {person ? 'password' : 'API key'} again to continue. The confirmation lasts 5 minutes.
        </p>
        {person ? <HiddenUsername email={person.email} /> : null}
        <Field
          label={person ? 'Password' : 'API key'}
          type="password"
          value={secret}
          onChange={setSecret}
          autoFocus
          required
          autoComplete="current-password"
          mono={!person}
        />
      </FormDialog>
    );
  }
  if (hasPasskeys) {
    return (
      <FormDialog {...form} action="Use a passkey" onSubmit={byPasskey}>
        <p className="muted">
          {wanted === 'factor'
            ? 'You have a passkey, and this session has not used it. A password alone is not enough here.'
            : 'Use your passkey to continue. The confirmation lasts 5 minutes.'}
        </p>
      </FormDialog>
    );
  }
  return (
    <FormDialog {...form} action="Sign out" onSubmit={signOut}>
      <p className="muted">
        {wanted === 'factor' && ways?.passkeys
          ? `Your passkey is required. Passkeys work under ${ways.passkeys}/console/: sign in there.`
          : 'A recent sign-in is required. Sign out, then sign in again: that counts for 5 minutes.'}
      </p>
    </FormDialog>
  );
}
