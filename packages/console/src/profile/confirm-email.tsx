// The link that proves a new email address was opened. The person agrees, and signs in with the new one from then on.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { sessionRequest } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { toast } from '../ui/toast.tsx';

export function ConfirmEmail({ code, onClose }: { code: string; onClose: () => void }) {
  const client = useQueryClient();
  const { person } = useSession();
  const confirm = useMutation({
    mutationFn: () => sessionRequest('POST', 'person/email/confirm', { code }),
    onSuccess: async () => {
      toast.done('Your new email address counts from now on.');
      await refresh();
      onClose();
      return client.invalidateQueries({ queryKey: ['person'] });
    },
  });
  return (
    <Dialog title="Use the new email address" onClose={onClose}>
      <div className="stack">
        {confirm.error ? <ErrorNote error={confirm.error} /> : null}
        <p className="muted">
          You opened the link that was sent to your new address. It replaces {person?.email}: you sign in with
          it from now on.
        </p>
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" isBusy={confirm.isPending} onClick={() => confirm.mutate()}>
            Use it
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
