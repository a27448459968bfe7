// Saved queries, drafts and the history of a project in one drawer.
import type { HistoryEntry, ListedQuery, SavedQuery } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import {
  clearHistory,
  deleteQuery,
  history,
  historyKey,
  queriesKey,
  readQuery,
  savedQueries,
} from '../drafts/saved-queries.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Badge } from '../ui/badge.tsx';
import { Button, IconButton } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { formatAge, formatDuration, plural } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { toast } from '../ui/toast.tsx';
import './library.css';

const tabs = [
  { key: 'saved', label: 'Saved' },
  { key: 'draft', label: 'Drafts' },
  { key: 'history', label: 'History' },
] as const;

type Props = {
  slug: string;
  onOpen: (query: SavedQuery) => void;
  onText: (text: string) => void;
  onDeleted: (id: string) => void;
  onClose: () => void;
};

export function Library({ slug, onOpen, onText, onDeleted, onClose }: Props) {
  const [tab, setTab] = useState<(typeof tabs)[number]['key']>('saved');
  const [search, setSearch] = useState('');
  const wanted = useDeferredValue(search.trim());
  return (
    <Dialog title="Queries" kind="drawer" onClose={onClose}>
      <Tabs label="Kinds of queries" tabs={tabs} current={tab} onChange={setTab}>
        <div className="stack">
          <Field
            label="Search"
            isLabelHidden
            type="search"
            placeholder={tab === 'history' ? 'Search in the SQL' : 'Search by name or SQL'}
            value={search}
            onChange={setSearch}
          />
          {tab === 'history' ? (
            <History slug={slug} search={wanted} onText={onText} />
          ) : (
            <Queries slug={slug} kind={tab} search={wanted} onOpen={onOpen} onDeleted={onDeleted} />
          )}
        </div>
      </Tabs>
    </Dialog>
  );
}

type QueriesProps = Pick<Props, 'slug' | 'onOpen' | 'onDeleted'> & {
  kind: 'saved' | 'draft';
  search: string;
};

function Queries({ slug, kind, search, onOpen, onDeleted }: QueriesProps) {
  const client = useQueryClient();
  const { data, error } = useQuery(savedQueries(slug));
  const open = useMutation({
    mutationFn: (id: string) => readQuery(slug, id),
    onSuccess: onOpen,
    onError: toast.failed,
  });
  const remove = useMutation({
    mutationFn: (id: string) => deleteQuery(slug, id),
    onSuccess: (_, id) => {
      onDeleted(id);
      return client.invalidateQueries({ queryKey: queriesKey(slug) });
    },
    onError: toast.failed,
  });
  if (error) return <ErrorNote error={error} />;
  if (!data) return <Skeleton />;
  const words = search.toLowerCase();
  const found = data.filter(
    (query) => query.kind === kind && `${query.name} ${query.preview}`.toLowerCase().includes(words),
  );
  if (found.length === 0) {
    return (
      <EmptyState icon="sql" title={kind === 'saved' ? 'No saved queries' : 'No drafts'}>
        {kind === 'saved'
          ? 'Save a query under a name, and everyone who works on this project has it.'
          : 'What you type is kept here until you save or delete it.'}
      </EmptyState>
    );
  }
  return (
    <ul className="library">
      {found.map((query) => (
        <QueryItem
          key={query.id}
          query={query}
          onOpen={() => open.mutate(query.id)}
          onDelete={() => remove.mutate(query.id)}
        />
      ))}
    </ul>
  );
}

function QueryItem({
  query,
  onOpen,
  onDelete,
}: {
  query: ListedQuery;
  onOpen: () => void;
  onDelete: () => void;
}) {
  const [isAsking, setAsking] = useState(false);
  const isWritable = mayWrite(useSession());
  return (
    <li className="library-item">
      <button type="button" className="library-open" onClick={onOpen}>
        <span className="row">
          <b className="truncate grow">{query.name}</b>
          <span className="faint">{formatAge(query.updated_at)}</span>
        </span>
        <span className="library-sql mono">{query.preview}</span>
      </button>
      {!isWritable ? null : isAsking ? (
        <Button size="small" kind="danger" onClick={onDelete}>
          Delete
        </Button>
      ) : (
        <IconButton
          label={`Delete ${query.name}`}
          size="small"
          icon={<Icon name="trash" />}
          onClick={() => setAsking(true)}
        />
      )}
    </li>
  );
}

function History({ slug, search, onText }: { slug: string; search: string; onText: Props['onText'] }) {
  const client = useQueryClient();
  const isWritable = mayWrite(useSession());
  const { data, error } = useQuery(history(slug, search));
  const clear = useMutation({
    mutationFn: () => clearHistory(slug),
    onSuccess: () => client.invalidateQueries({ queryKey: historyKey(slug) }),
    onError: toast.failed,
  });
  if (error) return <ErrorNote error={error} />;
  if (!data) return <Skeleton />;
  if (data.length === 0) {
    return (
      <EmptyState icon="sql" title={search ? 'Nothing matches' : 'No history yet'}>
        Statements that run here are listed for 30 days.
      </EmptyState>
    );
  }
  return (
    <>
      <ul className="library">
        {data.map((entry) => (
          <li key={entry.id} className="library-item">
            <button type="button" className="library-open" onClick={() => onText(entry.query)}>
              <HistoryHead entry={entry} />
              <span className="library-sql mono">{entry.query}</span>
            </button>
          </li>
        ))}
      </ul>
      {isWritable ? (
        <div className="row">
          <Button size="small" isBusy={clear.isPending} onClick={() => clear.mutate()}>
            Clear the history
          </Button>
        </div>
      ) : null}
    </>
  );
}

function HistoryHead({ entry }: { entry: HistoryEntry }) {
  return (
    <span className="row">
      {entry.error ? (
        <Badge tone="bad">{entry.error}</Badge>
      ) : (
        <span className="muted">
          {entry.row_count === null ? 'done' : plural(entry.row_count, 'row')}
          {entry.duration_ms === null ? '' : `, ${formatDuration(entry.duration_ms)}`}
        </span>
      )}
      <span className="grow" />
      <span className="faint">{formatAge(entry.at)}</span>
    </span>
  );
}
