// Menus and popovers on the browser's popover attribute: light dismiss and Esc come with it. The place beside the button
// is computed when it opens, through the CSSOM, which the content security policy allows.
import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from 'react';

type Trigger = {
  popoverTarget: string;
  'aria-expanded': boolean;
  'aria-haspopup': 'menu' | 'dialog';
  ref: (element: HTMLButtonElement | null) => void;
};

type PopoverProps = {
  label: string;
  trigger: (props: Trigger) => ReactNode;
  children: (close: () => void) => ReactNode;
  role?: 'menu' | 'dialog';
  align?: 'start' | 'end';
};

export function Popover({ label, trigger, children, role = 'dialog', align = 'start' }: PopoverProps) {
  const id = useId();
  const panel = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement | null>(null);
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    panel.current?.hidePopover();
    button.current?.focus();
  };
  return (
    <>
      {trigger({
        popoverTarget: id,
        'aria-expanded': isOpen,
        'aria-haspopup': role,
        ref: (element) => {
          button.current = element;
        },
      })}
      {/* biome-ignore lint/a11y/useAriaPropsSupportedByRole: both roles have a name; the rule cannot see which one it is. */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the role comes from the caller. */}
      <div
        ref={panel}
        id={id}
        popover="auto"
        role={role}
        aria-label={label}
        className={`popover popover-${role}`}
        onKeyDown={role === 'menu' ? moveInMenu : undefined}
        onToggle={(event) => {
          const opened = event.newState === 'open';
          setOpen(opened);
          if (opened) requestAnimationFrame(() => focusFirst(panel.current));
        }}
        onBeforeToggle={(event) => {
          if (event.newState === 'open') place(panel.current, button.current, align);
        }}
      >
        {isOpen ? children(close) : null}
      </div>
    </>
  );
}

export type MenuItem = {
  label: string;
  icon?: ReactNode;
  hint?: string | undefined;
  isDanger?: boolean;
  isChecked?: boolean;
  disabled?: boolean;
  onSelect: () => void;
};

export function Menu({
  label,
  items,
  trigger,
  align = 'start',
}: Omit<PopoverProps, 'children' | 'role'> & { items: readonly MenuItem[] }) {
  return (
    <Popover label={label} trigger={trigger} role="menu" align={align}>
      {(close) =>
        items.map((item) => (
          // biome-ignore lint/a11y/useAriaPropsSupportedByRole: only an item with the role menuitemcheckbox is checked.
          <button
            key={item.label}
            type="button"
            role={item.isChecked === undefined ? 'menuitem' : 'menuitemcheckbox'}
            aria-checked={item.isChecked}
            className={item.isDanger ? 'menu-item menu-item-danger' : 'menu-item'}
            disabled={item.disabled}
            onClick={() => {
              close();
              item.onSelect();
            }}
          >
            {item.icon}
            <span className="menu-item-label">{item.label}</span>
            {item.hint ? <kbd>{item.hint}</kbd> : null}
            {item.isChecked ? <span aria-hidden="true">✓</span> : null}
          </button>
        ))
      }
    </Popover>
  );
}

function focusFirst(panel: HTMLDivElement | null) {
  panel
    ?.querySelector<HTMLElement>('[data-autofocus], input, select, button:not(:disabled), a[href]')
    ?.focus();
}

function moveInMenu(event: KeyboardEvent<HTMLDivElement>) {
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>('[role^="menuitem"]:not(:disabled)')];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  items.at(to % items.length)?.focus();
}

function place(panel: HTMLDivElement | null, button: HTMLButtonElement | null, align: 'start' | 'end') {
  if (!panel || !button) return;
  const box = button.getBoundingClientRect();
  const isLow = box.bottom > innerHeight * 0.6;
  panel.style.top = isLow ? 'auto' : `${box.bottom + 4}px`;
  panel.style.bottom = isLow ? `${innerHeight - box.top + 4}px` : 'auto';
  const isRight = align === 'end' || box.left > innerWidth * 0.6;
  panel.style.left = isRight ? 'auto' : `${Math.max(8, box.left)}px`;
  panel.style.right = isRight ? `${Math.max(8, innerWidth - box.right)}px` : 'auto';
}
