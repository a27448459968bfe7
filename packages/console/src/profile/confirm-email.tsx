// The link that proves a new email address was opened. The person agrees, and signs in with the new one from then on.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { sessionRequest } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { FormDialog } from '../ui/form-dialog.tsx';
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
    <FormDialog
      title="Use the new email address"
      action="Use it"
      error={confirm.error}
      isBusy={confirm.isPending}
      onSubmit={() => confirm.mutate()}
      onClose={onClose}
    >
      <p className="muted">
        You opened the link that was sent to your new address. It replaces {person?.email}: you sign in with
        it from now on.
      </p>
    </FormDialog>
  );
}
