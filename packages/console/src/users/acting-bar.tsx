import { Button } from '../ui/button.tsx';
import { formatTime } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { toast } from '../ui/toast.tsx';
import { stopActing, useActing } from './acting.ts';

/** Above every screen of the project, so that nobody forgets whose rows they see. */
export function ActingBar({ slug }: { slug: string | null }) {
  const acting = useActing(slug);
  if (!acting) return null;
  return (
    <div className="acting" role="status">
      <Icon name="users" />
      <span className="grow">
        Rows and SQL run as <b>{acting.label}</b> until {formatTime(acting.expiresAt)}. After that they are
        refused until you stop.
      </span>
      <Button size="small" onClick={() => void stopActing().catch(toast.failed)}>
        Stop
      </Button>
    </div>
  );
}
