// What a project consists of: tables with columns and references, views, functions, indexes, policies, extensions.
import type { SchemaResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { Link, useSearchParams } from 'wouter';
import type { Table } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { Badge } from '../ui/badge.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { Icon } from '../ui/icons.tsx';
import { Page } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { Definitions, definitionTabs } from './definitions.tsx';
import { Diagram } from './diagram.tsx';
import './schema.css';

const tabs = [
  { key: 'tables', label: 'Tables' },
  { key: 'diagram', label: 'Diagram' },
  ...definitionTabs,
] as const;

export function Schema({ slug }: { slug: string }) {
  const [params, setParams] = useSearchParams();
  const tab = tabs.find(({ key }) => key === params.get('tab'))?.key ?? 'tables';
  const { data, error, refetch } = useQuery({
    queryKey: ['project', slug, 'schema', 'all'],
    queryFn: ({ signal }) =>
      api.get<SchemaResponse>(
        path`projects/${slug}/schema`,
        { include: 'indexes,constraints,policies,triggers,views,functions,extensions' },
        signal,
      ),
  });
  return (
    <Page title="Schema" isWide>
      {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton lines={8} /> : null}
      {data ? (
        <Tabs
          label="Parts of the schema"
          tabs={tabs}
          current={tab}
          onChange={(key) => setParams(key === 'tables' ? {} : { tab: key })}
        >
          {tab === 'tables' ? (
            <TableCards slug={slug} tables={data.tables} />
          ) : tab === 'diagram' ? (
            <Diagram slug={slug} tables={data.tables} />
          ) : (
            <Definitions slug={slug} tab={tab} schema={data} />
          )}
        </Tabs>
      ) : null}
    </Page>
  );
}

function TableCards({ slug, tables }: { slug: string; tables: readonly Table[] }) {
  if (tables.length === 0) {
    return (
      <EmptyState icon="schema" title="No tables yet">
        Tables, views and their foreign keys appear here.
      </EmptyState>
    );
  }
  return (
    <div className="cards">
      {tables.map((table) => (
        <TableCard key={`${table.schema}.${table.name}`} slug={slug} table={table} />
      ))}
    </div>
  );
}

function TableCard({ slug, table }: { slug: string; table: Table }) {
  const name = table.schema === 'public' ? table.name : `${table.schema}.${table.name}`;
  return (
    <section className="panel card" aria-label={name}>
      <header className="card-head">
        <Link href={`/projects/${slug}/tables/${encodeURIComponent(name)}`} className="truncate">
          {name}
        </Link>
        {table.kind === 'table' ? null : <Badge>{table.kind.replace('_', ' ')}</Badge>}
        {table.row_security ? <Badge tone="info">row security</Badge> : null}
      </header>
      <ul>
        {table.columns.map((column) => {
          const reference = table.references.find(({ columns }) => columns.includes(column.name));
          return (
            <li key={column.name} className="card-column" title={column.comment ?? undefined}>
              <span className="card-icon">
                {table.primary_key.includes(column.name) ? <Icon name="key" size={12} /> : null}
                {reference ? <Icon name="link" size={12} /> : null}
              </span>
              <span className="truncate grow">{column.name}</span>
              <span className="faint truncate">
                {column.type}
                {column.not_null ? '' : '?'}
                {reference ? ` → ${reference.target.name}` : ''}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
