import type { ConsoleProfileResponse } from '@rowhouse/api';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { isComplete, NewPasswordFields, noPassword } from '../people/new-password.tsx';
import { HiddenUsername } from '../session/hidden-username.tsx';
import { PasswordField } from '../session/password-field.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { FormPanel } from '../ui/form-panel.tsx';
import { Section } from '../ui/page.tsx';
import { toast } from '../ui/toast.tsx';

type Props = { person: ConsoleProfileResponse['person'] };

export function PasswordSection({ person: { email, has_password: hasPassword } }: Props) {
  const client = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const [current, setCurrent] = useState('');
  const [password, setPassword] = useState(noPassword);
  const { error, isBusy, waitS, run } = useAttempt();
  const close = () => {
    setOpen(false);
    setCurrent('');
    setPassword(noPassword);
  };
  const submit = async () => {
    const body = { current_password: current, password: password.first };
    if (await run(() => sessionRequest('POST', 'person/password', body))) return;
    close();
    toast.done('Your password is changed. All other sessions have ended.');
    await client.invalidateQueries({ queryKey: ['console-sessions'] });
  };
  if (isOpen) {
    return (
      <FormPanel
        title="Password"
        action={attemptLabel('Save the password', waitS)}
        error={error}
        isBusy={isBusy}
        isChanged={current !== '' || password.first !== ''}
        isReady={waitS === 0 && current !== '' && isComplete(password)}
        onSubmit={submit}
        onCancel={close}
      >
        <HiddenUsername email={email} />
        <PasswordField label="Current password" value={current} onChange={setCurrent} autoFocus />
        <NewPasswordFields value={password} onChange={setPassword} />
      </FormPanel>
    );
  }
  return (
    <Section title="Password">
      <div className="panel panel-pad row row-wrap">
        <span className="muted grow">
          {hasPassword
            ? 'A new password ends all of your other sessions.'
            : 'You have none: you sign in another way. “Forgot your password?” on the sign-in page sets one.'}
        </span>
        {hasPassword ? <Button onClick={() => setOpen(true)}>Change password</Button> : null}
      </div>
    </Section>
  );
}
