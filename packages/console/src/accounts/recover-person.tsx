// A link for somebody who lost the password where no mail is sent, or the second factor. It is shown once.
import type { RecoveryLinkResponse } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { EmailField } from '../ui/email-field.tsx';
import { CheckField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { formatTime } from '../ui/format.ts';
import { SecretDialog } from '../ui/secret-dialog.tsx';
import { SharedLink } from '../ui/shared-link.tsx';

export function RecoverPerson({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState('');
  const [resetsFactor, setResetsFactor] = useState(false);
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const recover = useMutation({
    mutationFn: () => {
      const body = { email: email.trim(), reset_second_factor: resetsFactor };
      return shownOnce(
        () => once((options) => api.post<RecoveryLinkResponse>('people/recovery', body, options)),
        (answer, close) => <Link answer={answer} onClose={close} />,
      );
    },
  });
  return (
    <FormDialog
      title="Help somebody to sign in"
      action="Make a link"
      error={recover.error}
      isBusy={recover.isPending}
      isReady={email.trim() !== ''}
      onSubmit={() => recover.mutate()}
      onClose={onClose}
      isShownLater
    >
      <p className="muted">A link with which a member of any account sets a new password.</p>
      <EmailField value={email} onChange={setEmail} autoFocus autoComplete="off" />
      <CheckField
        label="Also remove the second factor"
        help="Choose this if the second factor was lost. It also removes all passkeys and disconnects the other provider. Make sure that the request really comes from this person."
        checked={resetsFactor}
        onChange={setResetsFactor}
      />
    </FormDialog>
  );
}

function Link({ answer, onClose }: { answer: RecoveryLinkResponse; onClose: () => void }) {
  const { email, link, expires_at: until } = answer;
  const note = `Give this link only to that person. It works once, until ${formatTime(until)}, and is not shown again.`;
  return (
    <SecretDialog title={`New password for ${email}`} onClose={onClose}>
      <SharedLink note={note} link={link} />
    </SecretDialog>
  );
}
