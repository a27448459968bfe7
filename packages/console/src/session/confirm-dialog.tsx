// Asks for the password or the API key again before keys and connection strings are shown. The request that needed it waits
// here.
import { type FormEvent, useEffect, useState } from 'react';
import { hooks } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { HiddenUsername } from './hidden-username.tsx';
import { confirmSession } from './session.ts';
import { attemptLabel, useAttempt } from './use-attempt.ts';
import { useSession } from './use-session.ts';

export function ConfirmDialog() {
  const { person } = useSession();
  const [resolve, setResolve] = useState<((confirmed: boolean) => void) | null>(null);
  const [secret, setSecret] = useState('');
  const { error, setError, isBusy, waitS, run } = useAttempt();
  useEffect(() => {
    hooks.confirm = () => new Promise<boolean>((settle) => setResolve(() => settle));
    return () => {
      hooks.confirm = async () => false;
    };
  }, []);
  const finish = (confirmed: boolean) => {
    resolve?.(confirmed);
    setResolve(null);
    setSecret('');
    setError(null);
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const proof = person ? { password: secret } : { api_key: secret.trim() };
    if (!(await run(() => confirmSession(proof)))) finish(true);
  };
  const byPasskey = async () => {
    const { answerByPasskey, isCancelled } = await import('./passkeys.ts');
    let isDone = false;
    const failed = await run(async () => {
      const passkey = await answerByPasskey().catch((problem: unknown) => {
        if (isCancelled(problem)) return null;
        throw problem;
      });
      if (!passkey) return;
      await confirmSession({ passkey });
      isDone = true;
    });
    if (!failed && isDone) finish(true);
  };
  if (!resolve) return null;
  const asked = person ? 'password' : 'API key';
  return (
    <Dialog title="Confirm that it is you" onClose={() => finish(false)}>
      <form onSubmit={submit} className="stack">
        <p className="muted">
          This needs a person who has just entered their {asked}. The confirmation lasts 5 minutes.
        </p>
        {error ? <ErrorNote error={error} /> : null}
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
        <DialogActions>
          <Button onClick={() => finish(false)}>Cancel</Button>
          {person && 'PublicKeyCredential' in window ? (
            <Button disabled={isBusy} onClick={() => void byPasskey()}>
              Use a passkey
            </Button>
          ) : null}
          <Button kind="primary" type="submit" isBusy={isBusy} disabled={waitS > 0}>
            {attemptLabel('Confirm', waitS)}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
