// A question before something that cannot be undone. With `word`, the person must type it.
import { type ReactNode, useState } from 'react';
import { Field } from './field.tsx';
import { FormDialog } from './form-dialog.tsx';

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
  return (
    <FormDialog
      title={title}
      action={action}
      isBusy={isBusy}
      error={error}
      onClose={onClose}
      onSubmit={onConfirm}
      isReady={word === undefined || typed === word}
      isDanger
      isBrief
    >
      <div className="muted">{children}</div>
      {word ? (
        <Field label={`Type ${word} to confirm`} value={typed} onChange={setTyped} autoFocus mono />
      ) : null}
    </FormDialog>
  );
}
