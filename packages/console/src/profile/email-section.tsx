// Another email address. It counts once a link that was sent to it has been opened.
import type { ConsoleProfileResponse } from '@rowhouse/api';
import { useState } from 'react';
import { confirmed, sessionRequest } from '../api/request.ts';
import { PasswordField } from '../session/password-field.tsx';
import { attemptLabel, useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { EmailField } from '../ui/email-field.tsx';
import { FormPanel } from '../ui/form-panel.tsx';
import { Section } from '../ui/page.tsx';

type Props = { person: ConsoleProfileResponse['person'] };

/** Whoever has a second factor must have proved it in this session. */
const change = (email: string, password: string) =>
  confirmed(() => sessionRequest('POST', 'person/email', { email, password }));

export function EmailSection({ person: { email, has_password: hasPassword } }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [next, setNext] = useState('');
  const [password, setPassword] = useState('');
  const [sentTo, setSentTo] = useState<string | null>(null);
  const { error, isBusy, waitS, run } = useAttempt();
  const close = () => {
    setNext('');
    setPassword('');
    setOpen(false);
  };
  const submit = async () => {
    const to = next.trim();
    if (await run(() => change(to, password))) return;
    setSentTo(to);
    close();
  };
  if (isOpen) {
    return (
      <FormPanel
        title="Email address"
        action={attemptLabel('Send the link', waitS)}
        error={error}
        isBusy={isBusy}
        isChanged={next !== '' || password !== ''}
        isReady={waitS === 0 && password !== ''}
        onSubmit={submit}
        onCancel={close}
      >
        <EmailField
          label="New email address"
          value={next}
          onChange={setNext}
          autoFocus
          autoComplete="email"
        />
        <PasswordField value={password} onChange={setPassword} />
      </FormPanel>
    );
  }
  return (
    <Section title="Email address">
      <div className="panel panel-pad stack">
        {sentTo ? (
          <p className="note" role="status">
            A link was sent to {sentTo}. Open it in this browser within an hour. Until then, {email} counts.
          </p>
        ) : null}
        <div className="row row-wrap">
          <span className="grow profile-email">{email}</span>
          {hasPassword ? <Button onClick={() => setOpen(true)}>Change email address</Button> : null}
        </div>
      </div>
    </Section>
  );
}
