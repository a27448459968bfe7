// Three steps: the password, the secret for the app, and a first code that proves that the app has it.
import type { ConsoleFactorResponse, ConsoleRecoveryCodesResponse } from '@rowhouse/api';
import { useState } from 'react';
import { confirmed, sessionRequest } from '../api/request.ts';
import { CodeField } from '../session/code-field.tsx';
import { HiddenUsername } from '../session/hidden-username.tsx';
import { PasswordField } from '../session/password-field.tsx';
import { useShownOnce } from '../session/shown-once.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { SecretLine } from '../ui/code.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { QrCode } from './qr-code.tsx';
import { RecoveryCodes } from './recovery-codes.tsx';

type Props = { email: string; onDone: () => unknown; onClose: () => void };

export function SetUpFactor({ email, onDone, onClose }: Props) {
  const [password, setPassword] = useState('');
  const [begun, setBegun] = useState<ConsoleFactorResponse | null>(null);
  const [code, setCode] = useState('');
  const { error, isBusy, waitS, run } = useAttempt();
  const shownOnce = useShownOnce(onClose);
  const begin = () =>
    run(async () => {
      const send = () => sessionRequest<ConsoleFactorResponse>('POST', 'person/second-factor', { password });
      setBegun(await confirmed(send));
      setPassword('');
    });
  const confirm = () =>
    run(async () => {
      const url = 'person/second-factor/confirm';
      const body = { code: code.trim() };
      await shownOnce(
        () => sessionRequest<ConsoleRecoveryCodesResponse>('POST', url, body),
        ({ recovery_codes: codes }, close) => <RecoveryCodes codes={codes} onClose={close} />,
      );
      await onDone();
    });
  const isEntered = begun ? code.trim() !== '' : password !== '';
  return (
    <FormDialog
      title="Set up a second factor"
      action={attemptLabel(begun ? 'Turn on' : 'Next', waitS)}
      error={error}
      isBusy={isBusy}
      isReady={isEntered && waitS === 0}
      onSubmit={begun ? confirm : begin}
      onClose={onClose}
      isBrief
    >
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
    </FormDialog>
  );
}
