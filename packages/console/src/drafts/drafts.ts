// The open tabs of the editor. A tab is kept in sessionStorage at every key, and on the server as a draft when the person
// pauses: a reload, a crash or another machine loses nothing. Signing out empties sessionStorage. Pure, except for it.
import type { SavedQuery } from '@rowhouse/api';

/** A text on the server, as it was when it was last read or written. */
export type Stored = { id: string; updatedAt: string; text: string };
/** null: NULL. */
export type Params = Record<string, string | null>;
export type Tab = {
  id: string;
  title: string;
  text: string;
  params: Params;
  draft: Stored | null;
  /** The saved query that was opened. Its text changes only when the person saves. */
  saved: (Stored & { name: string }) | null;
};
export type Tabs = { open: readonly Tab[]; current: string };

const prefix = 'rowhouse.sql.';
const storageKey = (slug: string) => prefix + slug;

export function loadTabs(slug: string): Tabs {
  return readTabs(storageKey(slug)) ?? openTab({ open: [], current: '' });
}

/** The tabs of every project that was opened in this tab of the browser. */
export function loadAllTabs(): { slug: string; tabs: Tabs }[] {
  return Object.keys(sessionStorage).flatMap((key) => {
    const tabs = key.startsWith(prefix) ? readTabs(key) : null;
    return tabs ? [{ slug: key.slice(prefix.length), tabs }] : [];
  });
}

function readTabs(key: string): Tabs | null {
  try {
    const stored = JSON.parse(sessionStorage.getItem(key) ?? 'null') as Tabs | null;
    return stored && stored.open.length > 0 ? stored : null;
  } catch {
    // Replaces values that cannot be read.
    return null;
  }
}

export function storeTabs(slug: string, tabs: Tabs) {
  sessionStorage.setItem(storageKey(slug), JSON.stringify(tabs));
}

/** Changes the stored draft of a tab that may be gone. */
export function changeStored(slug: string, id: string, change: Partial<Tab>) {
  const tabs = readTabs(storageKey(slug));
  if (tabs) storeTabs(slug, changeTab(tabs, id, change));
}

export function openTab({ open }: Tabs, content: Partial<Tab> = {}): Tabs {
  const tab = { ...newTab(open), ...content };
  return { open: [...open, tab], current: tab.id };
}

/** An empty tab takes the query; a query that is open already is shown again. */
export function openQuery(tabs: Tabs, { id, kind, name, query, updated_at }: SavedQuery): Tabs {
  const shown = tabs.open.find(({ draft, saved }) => (kind === 'draft' ? draft : saved)?.id === id);
  if (shown) return { ...tabs, current: shown.id };
  const stored = { id, updatedAt: updated_at, text: query };
  const content: Partial<Tab> =
    kind === 'draft'
      ? { text: query, title: name, draft: stored }
      : { text: query, title: name, saved: { ...stored, name } };
  const current = tabs.open.find((tab) => tab.id === tabs.current);
  const rest = current && current.text.trim() === '' ? closeTab(tabs, current.id, false) : tabs;
  return openTab(rest, content);
}

/** `keepsOne`: the last tab is replaced by an empty one. */
export function closeTab(tabs: Tabs, id: string, keepsOne = true): Tabs {
  const open = tabs.open.filter((tab) => tab.id !== id);
  if (open.length === 0) return keepsOne ? openTab({ open, current: '' }) : { open, current: '' };
  const at = Math.max(0, tabs.open.findIndex((tab) => tab.id === id) - 1);
  return { open, current: tabs.current === id ? ((open[at] ?? open[0])?.id ?? '') : tabs.current };
}

export function changeTab(tabs: Tabs, id: string, change: Partial<Tab>): Tabs {
  return { ...tabs, open: tabs.open.map((tab) => (tab.id === id ? { ...tab, ...change } : tab)) };
}

/** Whether the server does not have this text yet. */
export function isUnsaved({ text, draft, saved }: Tab): boolean {
  if (text.trim() === '') return false;
  return text !== (draft ?? saved)?.text;
}

/** A comment on the first line names the query. */
export function titleOf({ title, text, saved }: Tab): string {
  return saved?.name ?? /^--\s*(\S.{0,30})/.exec(text)?.[1]?.trim() ?? title;
}

function newTab(open: readonly Tab[]): Tab {
  const used = new Set(open.map(({ title }) => title));
  let number = 1;
  while (used.has(`Query ${number}`)) number += 1;
  const id = crypto.randomUUID();
  return { id, title: `Query ${number}`, text: '', params: {}, draft: null, saved: null };
}
