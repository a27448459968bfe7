import type { ReactNode } from 'react';
import { Icon, type IconName } from './icons.tsx';

/** `isPage`: it stands for the whole page, which then has no other heading. */
type Props = { icon: IconName; title: string; children?: ReactNode; action?: ReactNode; isPage?: boolean };

export function EmptyState({ icon, title, children, action, isPage = false }: Props) {
  const Title = isPage ? 'h1' : 'h2';
  return (
    <div className="state">
      <span className="state-icon">
        <Icon name={icon} size={20} />
      </span>
      <Title>{title}</Title>
      {children ? <p>{children}</p> : null}
      {action}
    </div>
  );
}
