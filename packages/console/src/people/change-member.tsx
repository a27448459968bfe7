import type { Member } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, path } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
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
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate();
  };
  const isStuck = isLastOwner && choice.role !== 'owner';
  return (
    <Dialog title={`Role of ${member.email}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {change.error ? <ErrorNote error={change.error} /> : null}
        <RoleFields value={choice} onChange={setChoice} />
        {isStuck ? (
          <p className="note note-warn" role="status">
            This is the only owner of the account. Make another member an owner first.
          </p>
        ) : (
          <p className="muted">It counts with the next request of this member.</p>
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            isBusy={change.isPending}
            disabled={isStuck || !isChosen(choice)}
          >
            Save
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
