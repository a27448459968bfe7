// A form in a dialog: its fields, the error of the last attempt, Cancel, and the button that sends it.
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { CancelButton, Dialog, DialogActions } from './dialog.tsx';
import { ErrorNote } from './error-state.tsx';

type Props = {
  title: string;
  /** The label of the button that sends it. */
  action: string;
  onSubmit: () => unknown;
  onClose: () => void;
  children: ReactNode;
  error?: unknown;
  isBusy?: boolean;
  isReady?: boolean;
  isDanger?: boolean;
  /** Further buttons, before the last one. */
  more?: ReactNode;
  loses?: string | null;
  /** Closing does not ask: the user can easily type the input again, such as a password. */
  isBrief?: boolean;
  /** useShownOnce shows the result even if the dialog was closed in the meantime. */
  isShownLater?: boolean;
};

export function FormDialog(props: Props) {
  const { title, action, onSubmit, onClose, children, error, more, loses = null } = props;
  const { isBusy = false, isReady = true, isDanger = false, isBrief = false } = props;
  const goesOn = isBusy && (props.isShownLater ?? false);
  return (
    <Dialog title={title} onClose={onClose} isForm={!isBrief && !goesOn} loses={loses}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {error ? <ErrorNote error={error} /> : null}
        {children}
        <DialogActions>
          <CancelButton />
          {more}
          <Button kind={isDanger ? 'danger' : 'primary'} type="submit" isBusy={isBusy} disabled={!isReady}>
            {action}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
