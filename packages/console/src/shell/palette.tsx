// The command palette: projects, tables, saved queries, screens and actions by name. Ctrl or ⌘ and K opens it everywhere.
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useDeferredValue, useEffect, useId, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { foundProjectsQuery, tablesQuery } from '../api/queries.ts';
import { savedQueries } from '../drafts/saved-queries.ts';
import { isUsable, mayCreateProjects } from '../session/may.ts';
import { signOut } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { applyTheme } from '../theme/theme.ts';
import { Icon } from '../ui/icons.tsx';
import { type Command, rankCommands } from './rank.ts';
import { accountScreens, projectScreens } from './screens.ts';

export function Palette({ slug, onClose }: { slug: string | null; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const listId = useId();
  const [search, setSearch] = useState('');
  const [at, setAt] = useState(0);
  const found = rankCommands(useCommands(slug, search), search);
  useEffect(() => {
    const element = dialog.current;
    if (element && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  useEffect(() => {
    document.getElementById(`${listId}-${at}`)?.scrollIntoView({ block: 'nearest' });
  }, [at, listId]);
  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length > 0) {
      event.preventDefault();
      setAt((at + step + found.length) % found.length);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      run(found[at]);
    }
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Commands" onClose={onClose} closedby="any">
      <div className="palette-input">
        <Icon name="search" />
        <input
          role="combobox"
          aria-label="Find a project, table, query or action"
          aria-expanded="true"
          aria-controls={listId}
          aria-activedescendant={found.length > 0 ? `${listId}-${at}` : undefined}
          placeholder="Find a project, table, query or action"
          value={search}
          onChange={(event) => {
            setSearch(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div id={listId} role="listbox" aria-label="Results" className="palette-list">
        {found.map((command, index) => (
          <button
            key={command.key}
            id={`${listId}-${index}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            className="menu-item"
            onClick={() => run(command)}
            onMouseMove={() => setAt(index)}
          >
            <Icon name={command.icon} />
            <span className="menu-item-label">{command.label}</span>
            <span className="faint">{command.kind}</span>
          </button>
        ))}
        {found.length === 0 ? <p className="palette-none muted">Nothing matches.</p> : null}
      </div>
    </dialog>
  );
}

function useCommands(slug: string | null, search: string): Command[] {
  const [, go] = useLocation();
  const session = useSession();
  // The newest ones, of which letters in the same order are enough, and those of all that contain the text.
  const enabled = isUsable(session);
  const { data: newest = [] } = useQuery({ ...foundProjectsQuery(''), enabled });
  const words = useDeferredValue(search.trim().slice(0, 100));
  const { data: matching = [] } = useQuery({ ...foundProjectsQuery(words), enabled });
  const projects = new Map([...newest, ...matching].map((project) => [project.id, project])).values();
  const { data: tables = [] } = useQuery({ ...tablesQuery(slug ?? ''), enabled: slug !== null });
  const { data: queries = [] } = useQuery({ ...savedQueries(slug ?? ''), enabled: slug !== null });
  const to = (path: string) => () => go(path);
  const commands: Command[] = [];
  if (slug) {
    for (const { path, label, icon } of projectScreens(session))
      commands.push({ key: path, label, icon, kind: 'Screen', run: to(`/projects/${slug}/${path}`) });
    for (const { schema, name } of tables) {
      const table = schema === 'public' ? name : `${schema}.${name}`;
      const path = `/projects/${slug}/tables/${encodeURIComponent(table)}`;
      commands.push({ key: `table ${table}`, label: table, icon: 'grid', kind: 'Table', run: to(path) });
    }
    for (const { id, kind, name } of queries) {
      if (kind === 'draft') continue;
      const run = to(`/projects/${slug}/sql?query=${id}`);
      commands.push({ key: `query ${id}`, label: name, icon: 'sql', kind: 'Query', run });
    }
  }
  for (const project of projects) {
    const run = to(`/projects/${project.slug}/tables`);
    const key = `project ${project.slug}`;
    commands.push({ key, label: project.name, words: project.slug, icon: 'database', kind: 'Project', run });
  }
  if (isUsable(session) && mayCreateProjects(session)) {
    const run = to('/projects?new');
    commands.push({ key: 'new', label: 'New project', icon: 'plus', kind: 'Action', run });
  }
  for (const { path, label, icon } of session.scope === 'account' ? accountScreens(session) : [])
    commands.push({
      key: path,
      label: label === 'Projects' ? 'All projects' : label,
      icon,
      kind: 'Screen',
      run: to(path),
    });
  if (session.person)
    commands.push({ key: 'profile', label: 'Profile', icon: 'users', kind: 'Screen', run: to('/profile') });
  commands.push(
    { key: 'dark', label: 'Dark theme', icon: 'moon', kind: 'Action', run: () => applyTheme('dark') },
    { key: 'light', label: 'Light theme', icon: 'sun', kind: 'Action', run: () => applyTheme('light') },
    {
      key: 'system',
      label: 'Theme of the system',
      icon: 'monitor',
      kind: 'Action',
      run: () => applyTheme('system'),
    },
    { key: 'sessions', label: 'Sessions', icon: 'monitor', kind: 'Screen', run: to('/account/sessions') },
    { key: 'out', label: 'Sign out', icon: 'logout', kind: 'Action', run: () => void signOut() },
  );
  return commands;
}
