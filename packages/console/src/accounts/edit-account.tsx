import type { Account } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { Field } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { LimitsFields, limitsOf, toBody } from './limits-fields.tsx';

type Props = { account: Account; onDone: () => unknown; onClose: () => void };

export function EditAccount({ account, onDone, onClose }: Props) {
  const [name, setName] = useState(account.name);
  const [limits, setLimits] = useState(limitsOf(account));
  const save = useMutation({
    mutationFn: () => api.patch(path`accounts/${account.id}`, { name: name.trim(), ...toBody(limits) }),
    onSuccess: onDone,
  });
  return (
    <FormDialog
      title={`Name and limits of ${account.name}`}
      action="Save"
      error={save.error}
      isBusy={save.isPending}
      isReady={name.trim() !== ''}
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <Field label="Name" value={name} onChange={setName} required autoFocus maxLength={100} />
      <LimitsFields value={limits} onChange={setLimits} />
      <p className="muted">Existing projects stay, even above a limit.</p>
    </FormDialog>
  );
}
