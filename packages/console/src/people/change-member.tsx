import type { Member } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { FormDialog } from '../ui/form-dialog.tsx';
import { toast } from '../ui/toast.tsx';
import { isChosen, type RoleChoice, RoleFields, toBody } from './role-fields.tsx';

type Props = { member: Member; isLastOwner: boolean; onDone: () => unknown; onClose: () => void };

export function ChangeMember({ member, isLastOwner, onDone, onClose }: Props) {
  const [choice, setChoice] = useState<RoleChoice>({ role: member.role, projects: member.projects });
  const change = useMutation({
    mutationFn: () => api.patch(path`account/members/${member.id}`, toBody(choice)),
    onSuccess: async () => {
      toast.done(`${member.email} is ${choice.role} now.`);
      // It may be the own role.
      await refresh();
      return onDone();
    },
  });
  const isStuck = isLastOwner && choice.role !== 'owner';
  return (
    <FormDialog
      title={`Role of ${member.email}`}
      action="Save"
      error={change.error}
      isBusy={change.isPending}
      isReady={!isStuck && isChosen(choice)}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      <RoleFields value={choice} onChange={setChoice} />
      {isStuck ? (
        <p className="note note-warn" role="status">
          This is the only owner of the account. Make another member an owner first.
        </p>
      ) : (
        <p className="muted">The change applies from the next request of this member.</p>
      )}
    </FormDialog>
  );
}
