// Saved queries, drafts and the history, as the server keeps them for everyone who works on a project.
import type {
  AddHistory,
  HistoryResponse,
  SavedQueriesResponse,
  SavedQuery,
  SavedQueryResponse,
} from '@rowhouse/api';
import { queryOptions } from '@tanstack/react-query';
import { ApiError } from '../api/error.ts';
import { api, path } from '../api/request.ts';
import { type Stored, type Tab, titleOf } from './drafts.ts';

export const queriesKey = (slug: string) => ['queries', slug];

export const savedQueries = (slug: string) =>
  queryOptions({
    queryKey: queriesKey(slug),
    queryFn: ({ signal }) => api.get<SavedQueriesResponse>(path`projects/${slug}/queries`, undefined, signal),
    select: (answer) => answer.queries,
  });

export const historyKey = (slug: string) => ['history', slug];

export const history = (slug: string, search: string) =>
  queryOptions({
    queryKey: [...historyKey(slug), search],
    queryFn: ({ signal }) =>
      api.get<HistoryResponse>(
        path`projects/${slug}/history`,
        { limit: 100, search: search || undefined },
        signal,
      ),
    select: (answer) => answer.history,
  });

export const addHistory = (slug: string, entry: AddHistory) =>
  api.post(path`projects/${slug}/history`, entry);
export const clearHistory = (slug: string) => api.delete(path`projects/${slug}/history`);

export async function readQuery(slug: string, id: string): Promise<SavedQuery> {
  return (await api.get<SavedQueryResponse>(path`projects/${slug}/queries/${id}`)).saved;
}

export const deleteQuery = (slug: string, id: string) => api.delete(path`projects/${slug}/queries/${id}`);

type Text = { kind: 'saved' | 'draft'; name: string; query: string };

/** `known`: what it replaces. If that was changed meanwhile, the request fails and changes nothing. */
export async function writeQuery(slug: string, known: Stored | null, text: Text): Promise<SavedQuery> {
  const answer = known
    ? await api.patch<SavedQueryResponse>(path`projects/${slug}/queries/${known.id}`, {
        ...text,
        if_updated_at: known.updatedAt,
      })
    : await api.post<SavedQueryResponse>(path`projects/${slug}/queries`, text);
  return answer.saved;
}

export async function writeDraft(slug: string, tab: Tab): Promise<SavedQuery> {
  const text = { kind: 'draft' as const, name: titleOf(tab), query: tab.text };
  try {
    return await writeQuery(slug, tab.draft, text);
  } catch (error) {
    // Another browser has changed or removed this draft: both texts are kept.
    if (!tab.draft || !(error instanceof ApiError) || ![404, 409].includes(error.status)) throw error;
    return writeQuery(slug, null, text);
  }
}

export const storedOf = ({ id, updated_at, query }: SavedQuery): Stored => ({
  id,
  updatedAt: updated_at,
  text: query,
});
