import type { InvitedResponse } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { EmailField } from '../ui/email-field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { InvitationLink } from './invitation-link.tsx';
import { isChosen, type RoleChoice, RoleFields, toBody } from './role-fields.tsx';

type Props = { onInvited: () => unknown; onClose: () => void };

export function InviteMember({ onInvited, onClose }: Props) {
  const [email, setEmail] = useState('');
  const [choice, setChoice] = useState<RoleChoice>({ role: 'developer', projects: null });
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const bodyNow = () => ({ email: email.trim(), ...toBody(choice) });
  const invite = useMutation({
    mutationFn: () =>
      shownOnce(
        () => once((options) => api.post<InvitedResponse>('account/invitations', bodyNow(), options)),
        ({ invitation, link }, close) => (
          <InvitationLink email={invitation.email} link={link} onClose={close} />
        ),
      ),
    onSuccess: onInvited,
  });
  return (
    <FormDialog
      title="Invite a member"
      action="Invite"
      error={invite.error}
      isBusy={invite.isPending}
      isReady={email.trim() !== '' && isChosen(choice)}
      onSubmit={() => invite.mutate()}
      onClose={onClose}
      isShownLater
    >
      <EmailField
        value={email}
        onChange={setEmail}
        autoFocus
        autoComplete="off"
        placeholder="ada@example.com"
      />
      <RoleFields value={choice} onChange={setChoice} />
    </FormDialog>
  );
}
