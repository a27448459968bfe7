// Another email address. It counts once a link that was sent to it has been opened.
import { type FormEvent, useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { PasswordField } from '../session/password-field.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { Section } from '../ui/page.tsx';

export function EmailSection({ email }: { email: string }) {
  const [isOpen, setOpen] = useState(false);
  const [next, setNext] = useState('');
  const [password, setPassword] = useState('');
  const [sentTo, setSentTo] = useState<string | null>(null);
  const { error, isBusy, waitS, run } = useAttempt();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const to = next.trim();
    if (await run(() => sessionRequest('POST', 'person/email', { email: to, password }))) return;
    setSentTo(to);
    setPassword('');
    setOpen(false);
  };
  return (
    <Section title="Email address">
      <div className="panel panel-pad stack">
        {sentTo ? (
          <p className="note" role="status">
            A link was sent to {sentTo}. Open it in this browser within an hour. Until then, {email} counts.
          </p>
        ) : null}
        {isOpen ? (
          <form className="stack" onSubmit={(event) => void submit(event)}>
            {error ? <ErrorNote error={error} /> : null}
            <Field
              label="New email address"
              type="email"
              value={next}
              onChange={setNext}
              autoFocus
              required
              autoComplete="email"
              maxLength={508}
            />
            <PasswordField value={password} onChange={setPassword} />
            <div className="row">
              <Button kind="primary" type="submit" isBusy={isBusy} disabled={waitS > 0 || password === ''}>
                {attemptLabel('Send the link', waitS)}
              </Button>
              <Button onClick={() => setOpen(false)}>Cancel</Button>
            </div>
          </form>
        ) : (
          <div className="row row-wrap">
            <span className="grow profile-email">{email}</span>
            <Button onClick={() => setOpen(true)}>Change email address</Button>
          </div>
        )}
      </div>
    </Section>
  );
}
