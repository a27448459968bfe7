// A new key, which is shown once.
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';

export function ShownKey({ apiKey, onClose }: { apiKey: string; onClose: () => void }) {
  return (
    <Dialog title="The new key" onClose={onClose} closesByButton>
      <div className="stack">
        <p className="note note-warn">Copy it now: it is not shown again.</p>
        <SecretLine text={apiKey} label="Key" />
        <DialogActions>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
