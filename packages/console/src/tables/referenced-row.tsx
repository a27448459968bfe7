// The row that a foreign key refers to.
import type { PageResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { Reference } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { previewOf, textOf } from '../grid/value.ts';
import { ErrorNote } from '../ui/error-state.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { filterParam, writeFilters } from './filters.ts';
import { readChars } from './long-values.ts';
import { tableName } from './table-name.ts';

type Props = { slug: string; reference: Reference; columnValue: (column: string) => unknown };

export function ReferencedRow({ slug, reference, columnValue }: Props) {
  const target = tableName(reference.target);
  const values = reference.columns.map(columnValue);
  // With a NULL or a default in one of its columns, a foreign key refers to nothing.
  const isSet = values.every((value) => value !== null && value !== undefined);
  const filters = reference.target_columns.map((column, index) => ({
    column,
    operator: 'eq' as const,
    value: textOf(values[index]),
  }));
  const { data, error } = useQuery({
    queryKey: ['project', slug, 'peek', target, filters],
    queryFn: ({ signal }) => {
      const params: [string, string][] = [
        ['limit', '1'],
        ['numbers', 'string'],
        ['max_value_chars', String(readChars)],
        ...filters.map(filterParam),
      ];
      return api.get<PageResponse>(path`projects/${slug}/tables/${target}`, params, signal);
    },
    enabled: isSet,
  });
  if (!isSet) return null;
  const row = data?.rows[0];
  const search = new URLSearchParams(filters.map((filter) => ['filter', writeFilters([filter])]));
  const href = `/projects/${slug}/tables/${encodeURIComponent(target)}?${search}`;
  return (
    <section className="peek">
      <header className="row">
        <h3 className="grow truncate">{target}</h3>
        <Link href={href}>Open</Link>
      </header>
      {error ? <ErrorNote error={error} /> : null}
      {data || error ? null : <Skeleton lines={3} />}
      {data && !row ? <p className="muted">There is no such row.</p> : null}
      {row ? (
        <dl className="peek-facts">
          {data.columns.map((name, index) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                {row[name] === null ? (
                  <i className="faint">NULL</i>
                ) : (
                  previewOf(row[name], data.types[index] ?? '')
                )}
              </dd>
            </div>
          ))}
        </dl>
      ) : null}
    </section>
  );
}
