// A question before something that cannot be undone. With `word`, the person must type it.
import { type FormEvent, type ReactNode, useState } from 'react';
import { Button } from './button.tsx';
import { Dialog, DialogActions } from './dialog.tsx';
import { ErrorNote } from './error-state.tsx';
import { Field } from './field.tsx';

type Props = {
  title: string;
  children: ReactNode;
  action: string;
  word?: string;
  isBusy?: boolean;
  error?: unknown;
  onConfirm: () => void;
  onClose: () => void;
};

export function Confirm({ title, children, action, word, isBusy = false, error, onConfirm, onClose }: Props) {
  const [typed, setTyped] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onConfirm();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <div className="muted">{children}</div>
        {error ? <ErrorNote error={error} /> : null}
        {word ? (
          <Field label={`Type ${word} to confirm`} value={typed} onChange={setTyped} autoFocus mono />
        ) : null}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="danger" type="submit" isBusy={isBusy} disabled={word !== undefined && typed !== word}>
            {action}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
