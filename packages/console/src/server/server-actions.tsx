// What an operator does with one server.
import type { ListedServer } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { ActionsMenu } from '../ui/actions-menu.tsx';
import { Confirm } from '../ui/confirm.tsx';
import type { MenuItem } from '../ui/menu.tsx';
import { toast } from '../ui/toast.tsx';
import { DrainServer } from './drain-server.tsx';

/** `isFirst`: it holds the control database and cannot be removed. */
export function ServerActions({ server, isFirst }: { server: ListedServer; isFirst: boolean }) {
  const { id, name, state } = server;
  const client = useQueryClient();
  const [open, setOpen] = useState<'drain' | 'attach' | 'remove' | null>(null);
  const address = path`servers/${String(id)}`;
  const reload = () => client.invalidateQueries({ queryKey: ['servers'] });
  const undrain = useMutation({
    mutationFn: () => api.patch(address, { state: 'ready' }),
    onSuccess: () => {
      toast.done(`${name} takes new projects again.`);
      return reload();
    },
    onError: toast.failed,
  });
  const attach = useMutation({
    mutationFn: () => api.patch(address, { state: 'ready' }),
    onSuccess: () => {
      toast.done(`${name} is attached.`);
      setOpen(null);
      return reload();
    },
  });
  const remove = useMutation({
    mutationFn: () => api.delete(address),
    onSuccess: () => {
      toast.done(`${name} is removed.`);
      setOpen(null);
      return reload();
    },
  });
  const items: MenuItem[] = [];
  if (state !== 'detached') items.push({ label: 'Drain', onSelect: () => setOpen('drain') });
  if (state === 'detached') items.push({ label: 'Attach', onSelect: () => setOpen('attach') });
  if (state === 'draining') items.push({ label: 'Take projects again', onSelect: () => undrain.mutate() });
  if (!isFirst) items.push({ label: 'Remove', isDanger: true, onSelect: () => setOpen('remove') });
  return (
    <>
      <ActionsMenu of={name} items={items} />
      {open === 'drain' ? <DrainServer server={server} onClose={() => setOpen(null)} /> : null}
      {open === 'attach' ? (
        <Confirm
          title={`Attach ${name}`}
          action="Attach server"
          word={name}
          isBusy={attach.isPending}
          error={attach.error}
          onConfirm={() => attach.mutate()}
          onClose={() => setOpen(null)}
        >
          The restored installation uses this server from then on. Make sure that no other service uses it.
        </Confirm>
      ) : null}
      {open === 'remove' ? (
        <Confirm
          title={`Remove ${name}`}
          action="Remove server"
          word={name}
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={() => setOpen(null)}
        >
          Rowhouse forgets this server. That is refused while it has projects, or deleted ones that can still
          be restored.
        </Confirm>
      ) : null}
    </>
  );
}
