// A new key, which is shown once.
import { Secret, SecretDialog } from '../ui/secret-dialog.tsx';

export function ShownKey({ apiKey, onClose }: { apiKey: string; onClose: () => void }) {
  return (
    <SecretDialog title="The new key" onClose={onClose}>
      <Secret note="Copy it now: it is not shown again." label="Key" text={apiKey} />
    </SecretDialog>
  );
}
