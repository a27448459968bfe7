import { type FormEvent, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';

type Props = { name: string; onSave: (name: string) => Promise<void>; onClose: () => void };

export function SaveDialog({ name: initial, onSave, onClose }: Props) {
  const [name, setName] = useState(initial);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onSave(name.trim());
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <Dialog title="Save the query" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {error ? <ErrorNote error={error} /> : null}
        <Field
          label="Name"
          value={name}
          onChange={setName}
          maxLength={100}
          required
          autoFocus
          help="Everyone who works on this project finds it under this name."
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy} disabled={name.trim() === ''}>
            Save
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
