import type { Account } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, path } from '../api/request.ts';
import { useSession } from '../session/use-session.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';

type Props = { account: Account; onDone: () => unknown; onClose: () => void };

export function SuspendAccount({ account, onDone, onClose }: Props) {
  const isOwn = useSession().account.id === account.id;
  const [reason, setReason] = useState('');
  const suspend = useMutation({
    mutationFn: () => api.patch(path`accounts/${account.id}`, { suspended_because: reason.trim() }),
    onSuccess: onDone,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    suspend.mutate();
  };
  return (
    <Dialog title={`Suspend ${account.name}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {suspend.error ? <ErrorNote error={suspend.error} /> : null}
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
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="danger" type="submit" isBusy={suspend.isPending} disabled={reason.trim() === ''}>
            Suspend
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
