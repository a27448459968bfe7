import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Field } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';

type Props = { name: string; onSave: (name: string) => Promise<void>; onClose: () => void };

export function SaveDialog({ name: initial, onSave, onClose }: Props) {
  const [name, setName] = useState(initial);
  const save = useMutation({ mutationFn: () => onSave(name.trim()), onSuccess: onClose });
  return (
    <FormDialog
      title="Save the query"
      action="Save"
      error={save.error}
      isBusy={save.isPending}
      isReady={name.trim() !== ''}
      onSubmit={() => save.mutate()}
      onClose={onClose}
      isBrief
    >
      <Field
        label="Name"
        value={name}
        onChange={setName}
        maxLength={100}
        required
        autoFocus
        help="Everyone who works on this project finds it under this name."
      />
    </FormDialog>
  );
}
