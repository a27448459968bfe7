import type { InvitedResponse } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { isChosen, type RoleChoice, RoleFields, toBody } from './role-fields.tsx';

type Props = { onInvited: (answer: InvitedResponse) => void; onClose: () => void };

export function InviteMember({ onInvited, onClose }: Props) {
  const [email, setEmail] = useState('');
  const [choice, setChoice] = useState<RoleChoice>({ role: 'developer', projects: null });
  const { once } = useIdempotencyKey();
  const invite = useMutation({
    mutationFn: () =>
      once((options) =>
        api.post<InvitedResponse>('account/invitations', { email: email.trim(), ...toBody(choice) }, options),
      ),
    onSuccess: onInvited,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    invite.mutate();
  };
  return (
    <Dialog title="Invite a member" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {invite.error ? <ErrorNote error={invite.error} /> : null}
        <Field
          label="Email address"
          type="email"
          value={email}
          onChange={setEmail}
          required
          autoFocus
          autoComplete="off"
          maxLength={508}
          placeholder="ada@example.com"
        />
        <RoleFields value={choice} onChange={setChoice} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            isBusy={invite.isPending}
            disabled={email.trim() === '' || !isChosen(choice)}
          >
            Invite
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
