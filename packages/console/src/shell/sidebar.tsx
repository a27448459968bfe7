import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { signOut } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { applyTheme, currentTheme, themes } from '../theme/theme.ts';
import { Icon, type IconName, Mark } from '../ui/icons.tsx';
import { Menu } from '../ui/menu.tsx';
import { toast } from '../ui/toast.tsx';
import { ProjectSwitcher } from './project-switcher.tsx';
import { projectScreens } from './screens.ts';

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
        {slug ? (
          projectScreens(session).map(({ path, label, icon }) => (
            <NavLink key={path} href={`/projects/${slug}/${path}`} icon={icon}>
              {label}
            </NavLink>
          ))
        ) : (
          <NavLink href="/projects" icon="database">
            Projects
          </NavLink>
        )}
      </nav>
      <nav aria-label="Installation" className="nav nav-foot">
        {slug && session.scope === 'account' ? (
          <NavLink href="/projects" icon="database" isExact>
            All projects
          </NavLink>
        ) : null}
        {session.scope === 'account' ? (
          <NavLink href="/server" icon="server">
            Server
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

const themeIcons = { system: 'monitor', light: 'sun', dark: 'moon' } as const;
const themeLabels = { system: 'Theme of the system', light: 'Light theme', dark: 'Dark theme' };

function AccountMenu() {
  const [, go] = useLocation();
  const session = useSession();
  const themeItems = themes.map((theme) => ({
    label: themeLabels[theme],
    icon: <Icon name={themeIcons[theme]} />,
    isChecked: currentTheme() === theme,
    onSelect: () => applyTheme(theme),
  }));
  const sessions = {
    label: 'Sessions',
    icon: <Icon name="monitor" />,
    onSelect: () => go('/account/sessions'),
  };
  const leave = {
    label: 'Sign out',
    icon: <Icon name="logout" />,
    onSelect: () => void signOut().catch(toast.failed),
  };
  return (
    <Menu
      label="Account"
      items={[...themeItems, sessions, leave]}
      trigger={(props) => (
        <button type="button" className="nav-link" {...props}>
          <span className="avatar" aria-hidden="true">
            {session.account.name.slice(0, 1).toUpperCase()}
          </span>
          <span className="truncate grow">{session.account.name}</span>
          <Icon name="dots" />
        </button>
      )}
    />
  );
}
