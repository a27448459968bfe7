import type { Member } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { api, path } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { Button } from '../ui/button.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { toast } from '../ui/toast.tsx';

type Props = {
  member: Member;
  isSelf: boolean;
  isLastOwner: boolean;
  onDone: () => unknown;
  onClose: () => void;
};

export function RemoveMember({ member, isSelf, isLastOwner, onDone, onClose }: Props) {
  const { account } = useSession();
  const remove = useMutation({
    mutationFn: () => api.delete(path`account/members/${member.id}`),
    onSuccess: () => {
      toast.done(isSelf ? `You have left ${account.name}.` : `${member.email} is removed.`);
      // The own session in the account has ended: the page asks, and shows the sign-in.
      if (isSelf) return refresh().catch(() => {});
      return onDone();
    },
  });
  const title = isSelf ? `Leave ${account.name}` : `Remove ${member.email}`;
  if (isLastOwner) {
    return (
      <Dialog title={title} onClose={onClose}>
        <div className="stack">
          <p className="muted">
            {isSelf ? 'You are' : `${member.email} is`} the only owner, and an account keeps an owner.
            Transfer the ownership to another member first.
          </p>
          <DialogActions>
            <Button kind="primary" onClick={onClose}>
              Close
            </Button>
          </DialogActions>
        </div>
      </Dialog>
    );
  }
  return (
    <Confirm
      title={title}
      action={isSelf ? 'Leave' : 'Remove'}
      isBusy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      {isSelf
        ? 'You see nothing of this account any more. Only an invitation brings you back.'
        : 'All sessions of this person in the account end at once. Keys that they know stay valid: revoke those too.'}
    </Confirm>
  );
}
