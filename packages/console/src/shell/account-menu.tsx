// Below the sidebar: in which account, as whom; other accounts of the person, the theme, and the way out.
import type { ConsoleProfileResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { personQuery } from '../api/queries.ts';
import { signOut, switchAccount } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { applyTheme, currentTheme, themes } from '../theme/theme.ts';
import { Icon } from '../ui/icons.tsx';
import { leaveFreely, mayLeave } from '../ui/leaving.ts';
import { Menu, type MenuItem } from '../ui/menu.tsx';
import { toast } from '../ui/toast.tsx';

const themeIcons = { system: 'monitor', light: 'sun', dark: 'moon' } as const;
const themeLabels = { system: 'Theme of the system', light: 'Light theme', dark: 'Dark theme' };

export function AccountMenu() {
  const [, go] = useLocation();
  const { account, person } = useSession();
  const accounts = useOwnAccounts();
  const { data: profile } = useQuery({ ...personQuery(), enabled: person !== null });
  const change = async (id: string) => {
    if (!(await mayLeave())) return;
    leaveFreely(() => go('/projects'));
    await switchAccount(id);
  };
  const switches: MenuItem[] = accounts.map(({ id, name, role }) => ({
    label: name,
    hint: role,
    icon: <Icon name="database" />,
    isChecked: id === account.id,
    onSelect: () => {
      if (id !== account.id) void change(id).catch(toast.failed);
    },
  }));
  const themeItems = themes.map((theme) => ({
    label: themeLabels[theme],
    icon: <Icon name={themeIcons[theme]} />,
    isChecked: currentTheme() === theme,
    onSelect: () => applyTheme(theme),
  }));
  const own: MenuItem = person
    ? { label: 'Profile', icon: <Icon name="users" />, onSelect: () => go('/profile') }
    : { label: 'Sessions', icon: <Icon name="monitor" />, onSelect: () => go('/account/sessions') };
  const leave: MenuItem = {
    label: 'Sign out',
    icon: <Icon name="logout" />,
    onSelect: () => void signOut().catch(toast.failed),
  };
  return (
    <Menu
      label="Account"
      items={[...switches, ...themeItems, own, leave]}
      trigger={(props) => (
        <button type="button" className="nav-link" {...props}>
          <span className="avatar" aria-hidden="true">
            {account.name.slice(0, 1).toUpperCase()}
          </span>
          <span className="grow account-name">
            <span className="truncate">{account.name}</span>
            {person ? <span className="truncate faint">{profile?.person.name ?? person.email}</span> : null}
          </span>
          <Icon name="dots" />
        </button>
      )}
    />
  );
}

type OwnAccount = ConsoleProfileResponse['accounts'][number];

/** Empty for a key, and for a person who belongs to one account only. */
export function useOwnAccounts(): readonly OwnAccount[] {
  const { person } = useSession();
  const { data } = useQuery({ ...personQuery(), enabled: person !== null });
  return data && data.accounts.length > 1 ? data.accounts : [];
}
