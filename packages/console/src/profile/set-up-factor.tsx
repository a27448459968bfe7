// Three steps: the password, the secret for the app, and a first code that proves that the app has it.
import type { ConsoleFactorResponse, ConsoleRecoveryCodesResponse } from '@rowhouse/api';
import { type FormEvent, useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { CodeField } from '../session/code-field.tsx';
import { HiddenUsername } from '../session/hidden-username.tsx';
import { PasswordField } from '../session/password-field.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { QrCode } from './qr-code.tsx';

type Props = { email: string; onDone: (codes: readonly string[]) => unknown; onClose: () => void };

export function SetUpFactor({ email, onDone, onClose }: Props) {
  const [password, setPassword] = useState('');
  const [begun, setBegun] = useState<ConsoleFactorResponse | null>(null);
  const [code, setCode] = useState('');
  const { error, isBusy, waitS, run } = useAttempt();
  const begin = () =>
    run(async () => {
      setBegun(await sessionRequest<ConsoleFactorResponse>('POST', 'person/second-factor', { password }));
      setPassword('');
    });
  const confirm = () =>
    run(async () => {
      const url = 'person/second-factor/confirm';
      const body = { code: code.trim() };
      await onDone((await sessionRequest<ConsoleRecoveryCodesResponse>('POST', url, body)).recovery_codes);
    });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void (begun ? confirm() : begin());
  };
  const isReady = begun ? code.trim() !== '' : password !== '';
  return (
    <Dialog title="Set up a second factor" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {error ? <ErrorNote error={error} /> : null}
        {begun ? (
          <>
            <p className="muted">Scan this code with an authenticator app, or enter the secret there.</p>
            <QrCode text={begun.uri} label="QR code for the authenticator app" />
            <SecretLine text={begun.secret} label="Secret" />
            <CodeField value={code} onChange={setCode} onlyApp />
          </>
        ) : (
          <>
            <p className="muted">You need an authenticator app, such as one on your phone.</p>
            <HiddenUsername email={email} />
            <PasswordField value={password} onChange={setPassword} autoFocus />
          </>
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy} disabled={!isReady || waitS > 0}>
            {attemptLabel(begun ? 'Turn on' : 'Next', waitS)}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
