// The tables of a project beside the rows of one.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { schemaQuery, tablesQuery } from '../api/queries.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { formatBytes, formatNumber } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { leaveFreely } from '../ui/leaving.ts';
import { usePageTitle } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { CreateTable } from './create-table.tsx';
import { tableName } from './table-name.ts';
import { TableView } from './table-view.tsx';
import './tables.css';

export function Tables({ slug, table }: { slug: string; table: string | null }) {
  const [params] = useSearchParams();
  const [, go] = useLocation();
  const isWritable = mayWrite(useSession());
  usePageTitle(table ? `${table} · ${slug}` : `Tables · ${slug}`);
  return (
    <div className={table ? 'tables tables-open' : 'tables'}>
      <TableList slug={slug} current={table} />
      {table ? null : <h1 className="visually-hidden">Tables</h1>}
      <div className="tables-main">
        {table ? <OpenTable key={table} slug={slug} name={table} /> : <NoTable slug={slug} />}
      </div>
      {table === null && params.has('new') && isWritable ? (
        <CreateTable slug={slug} onClose={() => leaveFreely(() => go(`/projects/${slug}/tables`))} />
      ) : null}
    </div>
  );
}

function TableList({ slug, current }: { slug: string; current: string | null }) {
  const [, go] = useLocation();
  const isWritable = mayWrite(useSession());
  const { data: tables, error, refetch } = useQuery(tablesQuery(slug));
  const [search, setSearch] = useState('');
  if (error) return <ErrorState error={error} onRetry={() => void refetch()} />;
  if (!tables) return <Skeleton />;
  const found = tables.filter((table) =>
    tableName(table).toLowerCase().includes(search.trim().toLowerCase()),
  );
  return (
    <section className="table-list" aria-label="Tables">
      <div className="row">
        <Field
          label="Find a table"
          isLabelHidden
          type="search"
          placeholder="Find a table"
          value={search}
          onChange={setSearch}
        />
        {isWritable ? (
          <IconButton
            label="New table"
            icon={<Icon name="plus" />}
            onClick={() => go(`/projects/${slug}/tables?new`)}
          />
        ) : null}
      </div>
      <ul>
        {found.map((table) => {
          const name = tableName(table);
          return (
            <li key={name}>
              <Link
                href={`/projects/${slug}/tables/${encodeURIComponent(name)}`}
                className="nav-link"
                aria-current={name === current ? 'page' : undefined}
                title={table.comment ?? `${name}, ${formatBytes(table.size_bytes)}`}
              >
                <Icon name={table.kind === 'table' || table.kind === 'partitioned' ? 'grid' : 'panel'} />
                <span className="truncate grow">{name}</span>
                {table.row_estimate ? (
                  <span className="faint table-rows">~{formatNumber(table.row_estimate)}</span>
                ) : null}
              </Link>
            </li>
          );
        })}
      </ul>
      {found.length === 0 ? (
        <p className="faint">{tables.length === 0 ? 'No tables yet.' : 'No table matches.'}</p>
      ) : null}
    </section>
  );
}

function NoTable({ slug }: { slug: string }) {
  const [, go] = useLocation();
  const isWritable = mayWrite(useSession());
  const { data: tables } = useQuery(tablesQuery(slug));
  if (!tables) return null;
  if (tables.length > 0) {
    return (
      <EmptyState icon="grid" title="Choose a table">
        Its rows open here. Ctrl K finds any table by its name.
      </EmptyState>
    );
  }
  if (!isWritable) return <EmptyState icon="grid" title="This project has no tables" />;
  return (
    <EmptyState
      icon="grid"
      title="This project has no tables"
      action={
        <span className="row row-wrap">
          <Button
            kind="primary"
            icon={<Icon name="plus" />}
            onClick={() => go(`/projects/${slug}/tables?new`)}
          >
            New table
          </Button>
          <Button icon={<Icon name="sql" />} onClick={() => go(`/projects/${slug}/sql`)}>
            Use SQL
          </Button>
        </span>
      }
    >
      Create one by form, from a CSV file, or with SQL.
    </EmptyState>
  );
}

function OpenTable({ slug, name }: { slug: string; name: string }) {
  const { data: schema, error, refetch } = useQuery(schemaQuery(slug));
  if (error) return <ErrorState isPage error={error} onRetry={() => void refetch()} />;
  if (!schema) return <Skeleton lines={10} />;
  const table = schema.tables.find((candidate) => tableName(candidate) === name);
  if (!table) {
    return (
      <EmptyState icon="search" title={`There is no table ${name}`} isPage>
        It may have been dropped or renamed.
      </EmptyState>
    );
  }
  return <TableView slug={slug} table={table} enums={schema.enums} />;
}
