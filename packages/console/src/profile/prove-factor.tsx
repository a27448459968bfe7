// Asks for the password and a code, before something about the second factor changes.
import { type FormEvent, type ReactNode, useState } from 'react';
import { CodeField } from '../session/code-field.tsx';
import { HiddenUsername } from '../session/hidden-username.tsx';
import { PasswordField } from '../session/password-field.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';

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
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    await run(() => onProve({ password, code: code.trim() }));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <p className="muted">{children}</p>
        {error ? <ErrorNote error={error} /> : null}
        <HiddenUsername email={email} />
        <PasswordField value={password} onChange={setPassword} autoFocus />
        <CodeField value={code} onChange={setCode} isFocused={false} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            isBusy={isBusy}
            disabled={waitS > 0 || password === '' || code.trim() === ''}
          >
            {attemptLabel(action, waitS)}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
