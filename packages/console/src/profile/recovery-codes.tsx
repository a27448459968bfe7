// Recovery codes, which are shown once: to copy, or as a file.
import { save } from '../api/download.ts';
import { Button } from '../ui/button.tsx';
import { Copy } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Icon } from '../ui/icons.tsx';

export function RecoveryCodes({ codes, onClose }: { codes: readonly string[]; onClose: () => void }) {
  const text = `${codes.join('\n')}\n`;
  const download = () => save(new Blob([text], { type: 'text/plain' }), 'rowhouse-recovery-codes.txt');
  return (
    <Dialog title="Recovery codes" onClose={onClose} closesByButton>
      <div className="stack">
        <p className="note note-warn">
          Keep them where you find them without your phone. Each signs in once in place of a code of the app.
          They are not shown again.
        </p>
        <ul className="recovery-codes mono" aria-label="Recovery codes">
          {codes.map((code) => (
            <li key={code}>{code}</li>
          ))}
        </ul>
        <div className="row row-wrap">
          <Copy text={text} label="Copy" />
          <Button size="small" icon={<Icon name="download" />} onClick={download}>
            Download
          </Button>
        </div>
        <DialogActions>
          <Button kind="primary" onClick={onClose}>
            I have stored them
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
