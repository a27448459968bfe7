import type { Account } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, path } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { LimitsFields, limitsOf, toBody } from './limits-fields.tsx';

type Props = { account: Account; onDone: () => unknown; onClose: () => void };

export function EditAccount({ account, onDone, onClose }: Props) {
  const [name, setName] = useState(account.name);
  const [limits, setLimits] = useState(limitsOf(account));
  const save = useMutation({
    mutationFn: () => api.patch(path`accounts/${account.id}`, { name: name.trim(), ...toBody(limits) }),
    onSuccess: onDone,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog title={`Name and limits of ${account.name}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {save.error ? <ErrorNote error={save.error} /> : null}
        <Field label="Name" value={name} onChange={setName} required autoFocus maxLength={100} />
        <LimitsFields value={limits} onChange={setLimits} />
        <p className="muted">What exists already stays, also above a limit.</p>
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={save.isPending} disabled={name.trim() === ''}>
            Save
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
