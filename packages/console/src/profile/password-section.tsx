import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { isComplete, NewPasswordFields, noPassword } from '../people/new-password.tsx';
import { HiddenUsername } from '../session/hidden-username.tsx';
import { PasswordField } from '../session/password-field.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Section } from '../ui/page.tsx';
import { toast } from '../ui/toast.tsx';

export function PasswordSection({ email }: { email: string }) {
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
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const body = { current_password: current, password: password.first };
    if (await run(() => sessionRequest('POST', 'person/password', body))) return;
    close();
    toast.done('Your password is changed. All other sessions have ended.');
    await client.invalidateQueries({ queryKey: ['console-sessions'] });
  };
  return (
    <Section title="Password">
      <div className="panel panel-pad">
        {isOpen ? (
          <form className="stack" onSubmit={(event) => void submit(event)}>
            {error ? <ErrorNote error={error} /> : null}
            <HiddenUsername email={email} />
            <PasswordField label="Present password" value={current} onChange={setCurrent} autoFocus />
            <NewPasswordFields value={password} onChange={setPassword} />
            <div className="row">
              <Button
                kind="primary"
                type="submit"
                isBusy={isBusy}
                disabled={waitS > 0 || current === '' || !isComplete(password)}
              >
                {attemptLabel('Save the password', waitS)}
              </Button>
              <Button onClick={close}>Cancel</Button>
            </div>
          </form>
        ) : (
          <div className="row row-wrap">
            <span className="muted grow">A new password ends all of your other sessions.</span>
            <Button onClick={() => setOpen(true)}>Change password</Button>
          </div>
        )}
      </div>
    </Section>
  );
}
