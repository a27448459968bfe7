// Removes a member, with the keys that they issued, or leaves the account.
import type { Member, MemberKey, MemberKeysResponse } from '@rowhouse/api';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { Button } from '../ui/button.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { CheckField } from '../ui/field.tsx';
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
  const [isRevoking, setRevoking] = useState(true);
  const issued = useQuery({
    queryKey: ['members', member.id, 'keys'],
    queryFn: ({ signal }) =>
      api.get<MemberKeysResponse>(path`account/members/${member.id}/keys`, undefined, signal),
    enabled: !isSelf,
  });
  const keys = issued.data?.keys ?? [];
  const remove = useMutation({
    mutationFn: () =>
      api.delete(path`account/members/${member.id}`, undefined, {
        // Never revoke keys that this dialog could not list.
        revoke_keys: !isSelf && isRevoking && keys.length > 0,
      }),
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
      isBusy={remove.isPending || (!isSelf && issued.isPending)}
      error={remove.error ?? issued.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      {isSelf ? (
        'You lose access to this account. Only a new invitation brings you back.'
      ) : (
        <div className="stack">
          <p>All sessions of this person in the account end at once.</p>
          <IssuedKeys
            keys={keys}
            unknownCount={issued.data?.unknown_issuer_count ?? 0}
            isRevoking={isRevoking}
            onChange={setRevoking}
          />
        </div>
      )}
    </Confirm>
  );
}

function IssuedKeys({
  keys,
  unknownCount,
  isRevoking,
  onChange,
}: {
  keys: readonly MemberKey[];
  unknownCount: number;
  isRevoking: boolean;
  onChange: (isRevoking: boolean) => void;
}) {
  const revocable = keys.filter(({ kind }) => kind !== 'project');
  const known = [...new Set(keys.flatMap(({ kind, project }) => (kind === 'project' ? [project] : [])))];
  return (
    <>
      {revocable.length > 0 ? (
        <CheckField
          label={`Revoke the keys that they issued (${revocable.length})`}
          help={revocable.map(({ name, project }) => (project ? `${name} (${project})` : name)).join(', ')}
          checked={isRevoking}
          onChange={onChange}
        />
      ) : null}
      {known.length > 0 ? (
        <p>They know the project key of {known.join(', ')}. Rotate it under Keys of each project.</p>
      ) : null}
      {unknownCount > 0 ? (
        <p className="muted">
          Keys without a known issuer ({unknownCount}), for example of the first start, go on working. If this
          person may know one, revoke it in Keys.
        </p>
      ) : null}
    </>
  );
}
