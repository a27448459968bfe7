import type { Account } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { useSession } from '../session/use-session.ts';
import { Field } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';

type Props = { account: Account; onDone: () => unknown; onClose: () => void };

export function SuspendAccount({ account, onDone, onClose }: Props) {
  const isOwn = useSession().account.id === account.id;
  const [reason, setReason] = useState('');
  const suspend = useMutation({
    mutationFn: () => api.patch(path`accounts/${account.id}`, { suspended_because: reason.trim() }),
    onSuccess: onDone,
  });
  return (
    <FormDialog
      title={`Suspend ${account.name}`}
      action="Suspend"
      error={suspend.error}
      isBusy={suspend.isPending}
      isReady={reason.trim() !== ''}
      isDanger
      onSubmit={() => suspend.mutate()}
      onClose={onClose}
    >
      <p className="muted">
        Every request of the account is refused, and direct connections are closed. All data is kept.
      </p>
      {isOwn ? (
        <p className="note note-bad">This is your own account. Only an operator key resumes it.</p>
      ) : null}
      <Field
        label="Reason"
        value={reason}
        onChange={setReason}
        required
        autoFocus
        maxLength={300}
        help="The members and the programs of the account are told this."
      />
    </FormDialog>
  );
}
