// The tabs of the editor as state, with drafts that are written to the server when the person pauses.
import type { SavedQuery } from '@rowhouse/api';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { toApiError } from '../api/error.ts';
import {
  changeTab,
  closeTab,
  isUnsaved,
  loadTabs,
  openQuery,
  openTab,
  storeTabs,
  type Tab,
  type Tabs,
} from '../drafts/drafts.ts';
import { deleteQuery, queriesKey, storedOf, writeDraft, writeQuery } from '../drafts/saved-queries.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { toast } from '../ui/toast.tsx';

const pauseMs = 800;

export function useTabs(slug: string) {
  const client = useQueryClient();
  const isWritable = mayWrite(useSession());
  const [tabs, setTabs] = useState<Tabs>(() => loadTabs(slug));
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => storeTabs(slug, tabs), [slug, tabs]);
  const reload = () => client.invalidateQueries({ queryKey: queriesKey(slug) });
  const change = (id: string, part: Partial<Tab>) => setTabs((now) => changeTab(now, id, part));

  const writing = useRef(new Set<string>());
  const storeDraft = async (tab: Tab) => {
    if (writing.current.has(tab.id)) return;
    writing.current.add(tab.id);
    try {
      const written = await writeDraft(slug, tab);
      setProblem(null);
      change(tab.id, { draft: storedOf(written) });
      await reload();
    } catch (error) {
      setProblem(toApiError(error).message);
    } finally {
      writing.current.delete(tab.id);
    }
  };
  const latest = useRef(storeDraft);
  latest.current = storeDraft;
  useEffect(() => {
    const unsaved = isWritable ? tabs.open.filter(isUnsaved) : [];
    if (unsaved.length === 0) return;
    const timer = setTimeout(() => {
      for (const tab of unsaved) void latest.current(tab);
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [tabs, isWritable]);

  const current = tabs.open.find(({ id }) => id === tabs.current) ?? tabs.open[0];
  return {
    tabs,
    current,
    /** Why the draft is not on the server. */
    problem,
    change,
    show: (id: string) => setTabs((now) => ({ ...now, current: id })),
    create: (text = '') => setTabs((now) => openTab(now, { text })),
    open: (query: SavedQuery) => setTabs((now) => openQuery(now, query)),
    /** An unsaved text stays in the list of drafts. */
    close: (tab: Tab) => {
      setTabs((now) => closeTab(now, tab.id));
      const isKept = tab.text.trim() !== '' && tab.text !== tab.saved?.text;
      if (tab.draft && !isKept && isWritable) void deleteQuery(slug, tab.draft.id).then(reload, () => {});
    },
    /** Under a name, for everyone. The draft is not needed any more. */
    save: async (tab: Tab, name: string) => {
      const known = tab.saved;
      const written = await writeQuery(slug, known, { kind: 'saved', name, query: tab.text });
      change(tab.id, { saved: { ...storedOf(written), name: written.name }, draft: null });
      if (tab.draft) await deleteQuery(slug, tab.draft.id).catch(() => {});
      toast.done(`${written.name} is saved.`);
      await reload();
    },
    /** After a query was deleted elsewhere, its tab is an unsaved text. */
    forget: (id: string) =>
      setTabs((now) => ({
        ...now,
        open: now.open.map((tab) => ({
          ...tab,
          draft: tab.draft?.id === id ? null : tab.draft,
          saved: tab.saved?.id === id ? null : tab.saved,
        })),
      })),
  };
}
