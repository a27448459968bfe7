// What an operator does with one account.
import type { Account } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { ActionsMenu } from '../ui/actions-menu.tsx';
import { Confirm } from '../ui/confirm.tsx';
import type { MenuItem } from '../ui/menu.tsx';
import { toast } from '../ui/toast.tsx';
import { EditAccount } from './edit-account.tsx';
import { SuspendAccount } from './suspend-account.tsx';

/** It was made at the first start, and cannot be deleted. */
const firstAccountId = 'default';

type Props = { account: Account; onChanged: () => unknown };

export function AccountActions({ account, onChanged }: Props) {
  const { id, name, status } = account;
  const [open, setOpen] = useState<'edit' | 'suspend' | 'delete' | null>(null);
  const address = path`accounts/${id}`;
  const done = (text: string) => () => {
    setOpen(null);
    toast.done(text);
    return onChanged();
  };
  const resume = useMutation({
    mutationFn: () => api.patch(address, { suspended_because: null }),
    onSuccess: done(`${name} can be used again.`),
    onError: toast.failed,
  });
  const restore = useMutation({
    mutationFn: () => api.post(`${address}/restore`),
    onSuccess: done(`${name} is back, with its projects.`),
    onError: toast.failed,
  });
  const remove = useMutation({
    mutationFn: () => api.delete(address),
    onSuccess: done(`${name} is deleted. It can be restored for 7 days.`),
  });
  const items: MenuItem[] = [];
  if (status === 'deleted') items.push({ label: 'Restore', onSelect: () => restore.mutate() });
  else {
    items.push({ label: 'Name and limits', onSelect: () => setOpen('edit') });
    if (status === 'suspended') items.push({ label: 'Resume', onSelect: () => resume.mutate() });
    else items.push({ label: 'Suspend', onSelect: () => setOpen('suspend') });
    if (id !== firstAccountId)
      items.push({ label: 'Delete', isDanger: true, onSelect: () => setOpen('delete') });
  }
  const close = () => setOpen(null);
  return (
    <>
      <ActionsMenu of={name} items={items} />
      {open === 'edit' ? <EditAccount account={account} onDone={done('Saved.')} onClose={close} /> : null}
      {open === 'suspend' ? (
        <SuspendAccount account={account} onDone={done(`${name} is suspended.`)} onClose={close} />
      ) : null}
      {open === 'delete' ? (
        <Confirm
          title={`Delete ${name}`}
          action="Delete account"
          word={name}
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={close}
        >
          Its {account.projects} projects, keys and sessions stop working at once. It can be restored for 7
          days.
        </Confirm>
      ) : null}
    </>
  );
}
