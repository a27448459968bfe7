// Asks for the password and a code, before something about the second factor changes.
import { type ReactNode, useState } from 'react';
import { CodeField } from '../session/code-field.tsx';
import { HiddenUsername } from '../session/hidden-username.tsx';
import { PasswordField } from '../session/password-field.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { FormDialog } from '../ui/form-dialog.tsx';

type Props = {
  title: string;
  action: string;
  email: string;
  children: ReactNode;
  onProve: (proof: { password: string; code: string }) => Promise<unknown>;
  onClose: () => void;
};

export function ProveFactor({ title, action, email, children, onProve, onClose }: Props) {
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const { error, isBusy, waitS, run } = useAttempt();
  return (
    <FormDialog
      title={title}
      action={attemptLabel(action, waitS)}
      error={error}
      isBusy={isBusy}
      isReady={waitS === 0 && password !== '' && code.trim() !== ''}
      onSubmit={() => run(() => onProve({ password, code: code.trim() }))}
      onClose={onClose}
      isBrief
    >
      <p className="muted">{children}</p>
      <HiddenUsername email={email} />
      <PasswordField value={password} onChange={setPassword} autoFocus />
      <CodeField value={code} onChange={setCode} isFocused={false} />
    </FormDialog>
  );
}
