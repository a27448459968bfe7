// A link that makes whoever has it a member. It is shown once.
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';

/** `link`: null if it was mailed. */
type Props = { email: string; link: string | null; onClose: () => void };

export function InvitationLink({ email, link, onClose }: Props) {
  return (
    <Dialog title={`Invitation for ${email}`} onClose={onClose} closesByButton>
      <div className="stack">
        <InvitationLine email={email} link={link} />
        <DialogActions>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

export function InvitationLine({ email, link }: Omit<Props, 'onClose'>) {
  if (link === null)
    return <p className="note">The link was sent to {email}. It works once, within 7 days.</p>;
  return (
    <>
      <p className="note note-warn">
        Send this link to {email} over a way that you trust. It works once, within 7 days, and is not shown
        again.
      </p>
      <SecretLine text={new URL(link, location.origin).href} label="Link" />
    </>
  );
}
