// The frame of every screen: the sidebar, which is a drawer on a narrow screen, and the command palette.
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { isUsable } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { IconButton } from '../ui/button.tsx';
import { Icon, Mark } from '../ui/icons.tsx';
import { ActingBar } from '../users/acting-bar.tsx';
import { Palette } from './palette.tsx';
import { Sidebar } from './sidebar.tsx';

export function Shell({ children }: { children: ReactNode }) {
  const [location] = useLocation();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const drawer = useRef<HTMLDialogElement>(null);
  // The account cannot be used, so no part of a project is shown.
  const slug = isUsable(useSession()) ? slugOf(location) : null;
  // A new address closes the drawer.
  useEffect(() => {
    if (location !== '') drawer.current?.close();
  }, [location]);
  usePaletteKey(() => setPaletteOpen((isOpen) => !isOpen));
  const openPalette = () => setPaletteOpen(true);
  return (
    <div className="shell">
      <a className="skip-link" href="#main">
        Skip to the content
      </a>
      <header className="topbar">
        <IconButton
          label="Open the navigation"
          icon={<Icon name="menu" />}
          onClick={() => drawer.current?.showModal()}
        />
        <Link href="/projects" className="topbar-brand">
          <Mark size={18} />
          <span className="truncate">{slug ?? 'Rowhouse'}</span>
        </Link>
        <IconButton label="Search" icon={<Icon name="search" />} onClick={openPalette} />
      </header>
      <aside className="sidebar">
        <Sidebar slug={slug} onSearch={openPalette} />
      </aside>
      <dialog ref={drawer} className="sidebar-drawer" aria-label="Navigation" closedby="any">
        <Sidebar slug={slug} onSearch={openPalette} />
      </dialog>
      <main id="main" className="main" tabIndex={-1}>
        <ActingBar slug={slug} />
        <div className="main-body">{children}</div>
      </main>
      {isPaletteOpen ? <Palette slug={slug} onClose={() => setPaletteOpen(false)} /> : null}
    </div>
  );
}

function slugOf(location: string): string | null {
  const [, first, slug] = location.split('/');
  return first === 'projects' && slug ? decodeURIComponent(slug) : null;
}

function usePaletteKey(toggle: () => void) {
  const latest = useRef(toggle);
  latest.current = toggle;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.shiftKey) return;
      event.preventDefault();
      latest.current();
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
}
