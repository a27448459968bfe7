import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { useSession } from '../session/use-session.ts';
import { Icon, type IconName, Mark } from '../ui/icons.tsx';
import { AccountMenu } from './account-menu.tsx';
import { ProjectSwitcher } from './project-switcher.tsx';
import { accountScreens, projectScreens } from './screens.ts';

type Props = { slug: string | null; onSearch: () => void };

export function Sidebar({ slug, onSearch }: Props) {
  const session = useSession();
  return (
    <div className="sidebar-body">
      <Link href="/projects" className="brand">
        <Mark size={20} />
        Rowhouse
      </Link>
      <button type="button" className="search-button" onClick={onSearch}>
        <Icon name="search" />
        <span>Search</span>
        <kbd>Ctrl K</kbd>
      </button>
      {slug ? <ProjectSwitcher slug={slug} /> : null}
      <nav aria-label="Screens" className="nav">
        {slug
          ? projectScreens(session).map(({ path, label, icon }) => (
              <NavLink key={path} href={`/projects/${slug}/${path}`} icon={icon}>
                {label}
              </NavLink>
            ))
          : accountScreens(session).map(({ path, label, icon }) => (
              <NavLink key={path} href={path} icon={icon}>
                {label}
              </NavLink>
            ))}
      </nav>
      <nav aria-label="Installation" className="nav nav-foot">
        {slug && session.scope === 'account' ? (
          <NavLink href="/projects" icon="database" isExact>
            All projects
          </NavLink>
        ) : null}
        <AccountMenu />
      </nav>
    </div>
  );
}

type NavLinkProps = { href: string; icon: IconName; children: ReactNode; isExact?: boolean };

function NavLink({ href, icon, children, isExact = false }: NavLinkProps) {
  const [location] = useLocation();
  const isCurrent = location === href || (!isExact && location.startsWith(`${href}/`));
  return (
    <Link href={href} className="nav-link" aria-current={isCurrent ? 'page' : undefined}>
      <Icon name={icon} />
      {children}
    </Link>
  );
}
