import type { CreatedAccountResponse } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { InvitationLine } from '../people/invitation-link.tsx';
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { LimitsFields, noLimits, toBody } from './limits-fields.tsx';

type Props = { onCreated: () => unknown; onClose: () => void };

export function CreateAccount({ onCreated, onClose }: Props) {
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [limits, setLimits] = useState(noLimits);
  const { once } = useIdempotencyKey();
  const create = useMutation({
    mutationFn: () => {
      const owner = email.trim() === '' ? {} : { owner_email: email.trim() };
      const body = { name: name.trim(), ...toBody(limits), ...owner };
      return once((options) => api.post<CreatedAccountResponse>('accounts', body, options));
    },
    onSuccess: () => void onCreated(),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  if (create.data) return <Created answer={create.data} email={email.trim()} onClose={onClose} />;
  return (
    <Dialog title="New account" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {create.error ? <ErrorNote error={create.error} /> : null}
        <Field label="Name" value={name} onChange={setName} required autoFocus maxLength={100} />
        <Field
          label="Email address of the first owner"
          type="email"
          value={email}
          onChange={setEmail}
          autoComplete="off"
          maxLength={508}
          help="Optional: you get a link to send. In any case you get the first key of the account."
        />
        <LimitsFields value={limits} onChange={setLimits} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={create.isPending} disabled={name.trim() === ''}>
            Create account
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

type CreatedProps = { answer: CreatedAccountResponse; email: string; onClose: () => void };

function Created({ answer, email, onClose }: CreatedProps) {
  const { account, api_key: apiKey, invitation_link: link } = answer;
  return (
    <Dialog title={`${account.name} is created`} onClose={onClose} closesByButton>
      <div className="stack">
        {link ? <InvitationLine email={email} link={link} /> : null}
        <p className="note note-warn">
          The first key of the account, with the role owner. Copy it now: it is not shown again.
        </p>
        <SecretLine text={apiKey} label="Key" />
        <DialogActions>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
