import type { Member } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { api, path } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { Confirm } from '../ui/confirm.tsx';
import { toast } from '../ui/toast.tsx';

type Props = { to: Member; onDone: () => unknown; onClose: () => void };

export function TransferOwnership({ to, onDone, onClose }: Props) {
  const { account, person } = useSession();
  const transfer = useMutation({
    mutationFn: async () => {
      await api.patch(path`account/members/${to.id}`, { role: 'owner' });
      // If this fails, the account has two owners, and the form can be sent again.
      await api.patch(path`account/members/${person?.id ?? ''}`, { role: 'admin' });
    },
    onSuccess: async () => {
      toast.done(`${to.email} owns ${account.name} now.`);
      await refresh();
      return onDone();
    },
  });
  return (
    <Confirm
      title={`Transfer ${account.name}`}
      action="Transfer ownership"
      isBusy={transfer.isPending}
      error={transfer.error}
      onConfirm={() => transfer.mutate()}
      onClose={onClose}
    >
      {to.email} becomes owner, and you become admin. Only an owner can undo that.
    </Confirm>
  );
}
