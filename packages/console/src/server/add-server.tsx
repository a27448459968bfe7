import type { AddServer as AddServerBody, ServerResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/request.ts';
import { Field } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { toast } from '../ui/toast.tsx';

export function AddServer({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [address, setAddress] = useState('');
  const [labels, setLabels] = useState('');
  const [capacityMb, setCapacityMb] = useState('');
  const [connections, setConnections] = useState('');
  const add = useMutation({
    mutationFn: () => {
      const words = labels.split(/[\s,]+/).filter(Boolean);
      const body: AddServerBody = {
        name: name.trim(),
        address: address.trim(),
        ...(words.length > 0 && { labels: words }),
        ...(capacityMb && { capacity_mb: Number(capacityMb) }),
        ...(connections && { capacity_connections: Number(connections) }),
      };
      return api.post<ServerResponse>('servers', body);
    },
    onSuccess: ({ server }) => {
      toast.done(`${server.name} takes new projects.`);
      onClose();
      return client.invalidateQueries({ queryKey: ['servers'] });
    },
  });
  const number = { inputMode: 'numeric', pattern: '[0-9]+', placeholder: 'no limit' } as const;
  return (
    <FormDialog
      title="Add a server"
      action="Add server"
      error={add.error}
      isBusy={add.isPending}
      isReady={name.trim() !== '' && address.trim() !== ''}
      onSubmit={() => add.mutate()}
      onClose={onClose}
    >
      <p className="note note-warn">
        It is backed up if ROWHOUSE_BACKUP_URL is set and its role may replicate.
      </p>
      <Field
        label="Name"
        value={name}
        onChange={setName}
        required
        autoFocus
        maxLength={63}
        placeholder="db2"
        help="Lowercase letters, digits and hyphens. It cannot be changed."
        mono
      />
      <Field
        label="Address"
        type="password"
        value={address}
        onChange={setAddress}
        required
        autoComplete="off"
        maxLength={2_000}
        placeholder="postgres://user:password@db2.example.com:5432/postgres"
        help="With the name and password of a superuser, or of a role with CREATEDB and CREATEROLE. It is stored encrypted and never shown."
        mono
      />
      <Field
        label="Labels"
        value={labels}
        onChange={setLabels}
        placeholder="eu, ssd"
        help="A project can ask for servers with certain labels."
      />
      <Field label="Room for projects" value={capacityMb} onChange={setCapacityMb} suffix="MB" {...number} />
      <Field label="Connections for requests" value={connections} onChange={setConnections} {...number} />
    </FormDialog>
  );
}
