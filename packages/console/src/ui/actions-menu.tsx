import { Icon } from './icons.tsx';
import { Menu, type MenuItem } from './menu.tsx';

/** What can be done with a row of a list, behind three dots. */
export function ActionsMenu({ of, items }: { of: string; items: readonly MenuItem[] }) {
  const label = `Actions for ${of}`;
  return (
    <Menu
      label={label}
      align="end"
      items={items}
      trigger={(props) => (
        <button
          type="button"
          className="button button-ghost button-small button-icon"
          {...props}
          aria-label={label}
        >
          <Icon name="dots" />
        </button>
      )}
    />
  );
}
