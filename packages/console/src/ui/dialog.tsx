// A modal dialog on the browser's own <dialog>: it traps the focus, closes with Esc and gives the focus back. It asks before it
// closes on something that would be lost.
import { createContext, type ReactNode, useContext, useId, useLayoutEffect, useRef, useState } from 'react';
import { ask } from './ask.ts';
import { Button, IconButton } from './button.tsx';
import { Icon } from './icons.tsx';
import { leaveFreely, useUnsaved } from './leaving.ts';

type Props = {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** drawer: at the right edge, over the whole height. */
  kind?: 'center' | 'wide' | 'drawer';
  /** It shows what is shown once: Esc and a click beside it do nothing. */
  closesByButton?: boolean;
  /** Closing the dialog discards the input. */
  isForm?: boolean;
  /** A sentence that says what closing stops or loses, such as an upload that runs. */
  loses?: string | null;
};

const CancelContext = createContext(() => {});

export function Dialog(props: Props) {
  const { title, onClose, children, kind = 'center', closesByButton = false, isForm = false } = props;
  const { loses = null } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const [isTyped, setTyped] = useState(false);
  const loss = loses ?? (isForm && isTyped ? `What you entered in “${title}” is lost.` : null);
  useUnsaved(loss ?? (closesByButton ? `“${title}” shows something that is not shown again.` : null));
  const close = async (about: string | null) => {
    const question = { title: `Close “${title}”?`, action: 'Close and discard' };
    if (about === null || (await ask({ ...question, about }))) leaveFreely(onClose);
  };
  // Before the effects of the children: a field that wants the focus must find the dialog open.
  useLayoutEffect(() => {
    const element = dialog.current;
    // React in strict mode runs effects twice, and an open dialog cannot be opened again.
    if (element && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      closedby={closesByButton ? 'none' : 'any'}
      className={`dialog dialog-${kind}`}
      aria-labelledby={titleId}
      onInput={() => setTyped(true)}
      onCancel={(event) => {
        // The event also comes up from a dialog or a file field inside this one.
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        // A browser that does not know closedby fires it for Esc.
        if (!closesByButton) void close(loss);
      }}
    >
      <div className="dialog-body">
        <header className="dialog-head">
          <h2 id={titleId}>{title}</h2>
          <IconButton
            label="Close"
            icon={<Icon name="close" />}
            size="small"
            onClick={() => void close(loss)}
          />
        </header>
        <div className="dialog-content">
          <CancelContext value={() => void close(loses)}>{children}</CancelContext>
        </div>
      </div>
    </dialog>
  );
}

export function DialogActions({ children }: { children: ReactNode }) {
  return <footer className="dialog-actions">{children}</footer>;
}

/** Its label says what it does, so it does not ask about what was typed, only about work that runs. */
export function CancelButton() {
  return <Button onClick={useContext(CancelContext)}>Cancel</Button>;
}
