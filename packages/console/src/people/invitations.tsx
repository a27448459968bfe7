// Invitations that were not accepted yet.
import type { Invitation, Role } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { api, path } from '../api/request.ts';
import { rolesBelow } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { formatAge, formatTime } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { toast } from '../ui/toast.tsx';
import { projectsColumn } from './projects-column.tsx';

type Props = { invitations: readonly Invitation[]; onChanged: () => unknown };

export function Invitations({ invitations, onChanged }: Props) {
  const own = rolesBelow(useSession());
  const withdraw = useMutation({
    mutationFn: ({ id }: Invitation) => api.delete(path`account/invitations/${id}`),
    onSuccess: (_answer, { email }) => {
      toast.done(`The invitation of ${email} is withdrawn.`);
      return onChanged();
    },
    onError: toast.failed,
  });
  return (
    <Section title="Invitations" about="Not accepted yet. An invitation can be withdrawn until it is used.">
      <div className="panel">
        <List
          label="Invitations"
          columns={[...columns, withdrawColumn(own, withdraw.mutate)]}
          items={invitations}
          keyOf={({ id }) => id}
        />
      </div>
    </Section>
  );
}

const columns = [
  { title: 'Email', cell: ({ email }: Invitation) => email },
  { title: 'Role', cell: ({ role }: Invitation) => <Badge>{role}</Badge> },
  projectsColumn,
  {
    title: 'Expires',
    cell: ({ expires_at }: Invitation) => (
      <time className="faint" dateTime={expires_at} title={formatTime(expires_at)}>
        {formatAge(expires_at)}
      </time>
    ),
  },
];

const withdrawColumn = (own: readonly Role[], onWithdraw: (invitation: Invitation) => void) => ({
  title: 'Withdraw',
  isTitleHidden: true,
  align: 'end' as const,
  cell: (invitation: Invitation) =>
    own.includes(invitation.role) ? (
      <Button
        size="small"
        aria-label={`Withdraw the invitation of ${invitation.email}`}
        onClick={() => onWithdraw(invitation)}
      >
        Withdraw
      </Button>
    ) : null,
});
