// A modal dialog on the browser's own <dialog>: it traps the focus, closes with Esc and gives the focus back.
import { type ReactNode, useId, useLayoutEffect, useRef } from 'react';
import { IconButton } from './button.tsx';
import { Icon } from './icons.tsx';

type Props = {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** drawer: at the right edge, over the whole height. */
  kind?: 'center' | 'wide' | 'drawer';
  /** It shows what is shown once: Esc and a click beside it do nothing. */
  closesByButton?: boolean;
};

export function Dialog({ title, onClose, children, kind = 'center', closesByButton = false }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
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
      onCancel={(event) => {
        // The event also comes up from a dialog or a file field inside this one.
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        // A browser that does not know closedby fires it for Esc.
        if (!closesByButton) onClose();
      }}
    >
      <div className="dialog-body">
        <header className="dialog-head">
          <h2 id={titleId}>{title}</h2>
          <IconButton label="Close" icon={<Icon name="close" />} size="small" onClick={onClose} />
        </header>
        <div className="dialog-content">{children}</div>
      </div>
    </dialog>
  );
}

export function DialogActions({ children }: { children: ReactNode }) {
  return <footer className="dialog-actions">{children}</footer>;
}
