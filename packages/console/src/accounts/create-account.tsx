import type { CreatedAccountResponse } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { InvitationLine } from '../people/invitation-link.tsx';
import { useShownOnce } from '../session/shown-once.tsx';
import { EmailField } from '../ui/email-field.tsx';
import { Field } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { Secret, SecretDialog } from '../ui/secret-dialog.tsx';
import { LimitsFields, noLimits, toBody } from './limits-fields.tsx';

type Props = { onCreated: () => unknown; onClose: () => void };

export function CreateAccount({ onCreated, onClose }: Props) {
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [limits, setLimits] = useState(noLimits);
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const create = useMutation({
    mutationFn: () => {
      const owner = email.trim() === '' ? {} : { owner_email: email.trim() };
      const body = { name: name.trim(), ...toBody(limits), ...owner };
      return shownOnce(
        () => once((options) => api.post<CreatedAccountResponse>('accounts', body, options)),
        (answer, close) => <Created answer={answer} email={email.trim()} onClose={close} />,
      );
    },
    onSuccess: () => void onCreated(),
  });
  return (
    <FormDialog
      title="New account"
      action="Create account"
      error={create.error}
      isBusy={create.isPending}
      isReady={name.trim() !== ''}
      onSubmit={() => create.mutate()}
      onClose={onClose}
      isShownLater
    >
      <Field label="Name" value={name} onChange={setName} required autoFocus maxLength={100} />
      <EmailField
        required={false}
        label="Email address of the first owner"
        value={email}
        onChange={setEmail}
        autoComplete="off"
        help="Optional: they get a link by mail, or you get it to send. Either way, you get the first key of the account."
      />
      <LimitsFields value={limits} onChange={setLimits} />
    </FormDialog>
  );
}

type CreatedProps = { answer: CreatedAccountResponse; email: string; onClose: () => void };

function Created({ answer, email, onClose }: CreatedProps) {
  const { account, api_key: apiKey, invitation_link: link } = answer;
  return (
    <SecretDialog title={`${account.name} is created`} onClose={onClose}>
      {email ? <InvitationLine email={email} link={link ?? null} /> : null}
      <Secret
        note="The first key of the account, with the role owner. Copy it now: it is not shown again."
        label="Key"
        text={apiKey}
      />
    </SecretDialog>
  );
}
