// A link that makes whoever has it a member. It is shown once.
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';

type Props = { email: string; link: string; isMailed?: boolean; onClose: () => void };

export function InvitationLink({ email, link, isMailed = false, onClose }: Props) {
  return (
    <Dialog title={`Invitation for ${email}`} onClose={onClose} closesByButton>
      <div className="stack">
        <InvitationLine email={email} link={link} isMailed={isMailed} />
        <DialogActions>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

export function InvitationLine({ email, link, isMailed = false }: Omit<Props, 'onClose'>) {
  return (
    <>
      <p className="note note-warn">
        {isMailed
          ? `The link was sent to ${email}. `
          : `Send this link to ${email} over a way that you trust. `}
        It works once, within 7 days, and is not shown again.
      </p>
      <SecretLine text={new URL(link, location.origin).href} label="Link" />
    </>
  );
}
