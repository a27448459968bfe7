// A dialog with what is shown once. Only its button closes it.
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { SecretLine } from './code.tsx';
import { Dialog, DialogActions } from './dialog.tsx';

type Props = { title: string; onClose: () => void; children: ReactNode };

export function SecretDialog({ title, onClose, children }: Props) {
  return (
    <Dialog title={title} onClose={onClose} closesByButton>
      <div className="stack">
        {children}
        <DialogActions>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

/** A secret with a note above it that says what to do with it. */
export function Secret({ note, label, text }: { note: ReactNode; label: string; text: string }) {
  return (
    <>
      <p className="note note-warn">{note}</p>
      <SecretLine text={text} label={label} />
    </>
  );
}
