// What can be done with one member: another role, removal, ownership; and with oneself: leaving.
import type { Member } from '@rowhouse/api';
import { useState } from 'react';
import { mayManageAccount, rolesBelow } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { ActionsMenu } from '../ui/actions-menu.tsx';
import type { MenuItem } from '../ui/menu.tsx';
import { ChangeMember } from './change-member.tsx';
import { RemoveMember } from './remove-member.tsx';
import { TransferOwnership } from './transfer-ownership.tsx';

type Props = { member: Member; members: readonly Member[]; onChanged: () => unknown };

export function MemberActions({ member, members, onChanged }: Props) {
  const session = useSession();
  const [open, setOpen] = useState<'change' | 'transfer' | 'remove' | null>(null);
  const isSelf = session.person?.id === member.id;
  const isManageable = mayManageAccount(session) && rolesBelow(session).includes(member.role);
  const isLastOwner = member.role === 'owner' && members.filter(({ role }) => role === 'owner').length === 1;
  const items: MenuItem[] = [];
  if (isManageable) items.push({ label: 'Change role', onSelect: () => setOpen('change') });
  if (session.role === 'owner' && session.person && !isSelf && member.role !== 'owner')
    items.push({ label: 'Transfer ownership', onSelect: () => setOpen('transfer') });
  if (isSelf || isManageable)
    items.push({ label: isSelf ? 'Leave' : 'Remove', isDanger: true, onSelect: () => setOpen('remove') });
  if (items.length === 0) return null;
  const close = () => setOpen(null);
  const done = () => {
    close();
    return onChanged();
  };
  return (
    <>
      <ActionsMenu of={member.email} items={items} />
      {open === 'change' ? (
        <ChangeMember member={member} isLastOwner={isLastOwner} onDone={done} onClose={close} />
      ) : null}
      {open === 'transfer' ? <TransferOwnership to={member} onDone={done} onClose={close} /> : null}
      {open === 'remove' ? (
        <RemoveMember
          member={member}
          isSelf={isSelf}
          isLastOwner={isLastOwner}
          onDone={done}
          onClose={close}
        />
      ) : null}
    </>
  );
}
