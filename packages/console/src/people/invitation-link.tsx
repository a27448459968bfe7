// A link that makes whoever has it a member. It is shown once.
import { SecretDialog } from '../ui/secret-dialog.tsx';
import { SharedLink } from '../ui/shared-link.tsx';

/** `link`: null if it was mailed. */
type Props = { email: string; link: string | null; onClose: () => void };

export function InvitationLink({ email, link, onClose }: Props) {
  return (
    <SecretDialog title={`Invitation for ${email}`} onClose={onClose}>
      <InvitationLine email={email} link={link} />
    </SecretDialog>
  );
}

export function InvitationLine({ email, link }: Omit<Props, 'onClose'>) {
  if (link === null)
    return <p className="note">The link was sent to {email}. It works once, within 7 days.</p>;
  const note = `Send this link to ${email} over a way that you trust. It works once, within 7 days, and is not shown again.`;
  return <SharedLink note={note} link={link} />;
}
