// The rows of a table, page after page by cursor, without counting them.

import type { PageResponse } from '@rowhouse/api';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { api, path } from '../api/request.ts';
import type { StoredRow } from '../grid/staged.ts';
import { gridPageRows } from '../limits.ts';
import { type FilterGroup, groupParam, orderParam, type Sort } from './filters.ts';
import { readChars } from './long-values.ts';

/** A cursor, or the number of a page for a view, which has no cursor. */
type Place = { cursor: string } | { page: number };

type Options = {
  slug: string;
  table: string;
  keyColumns: readonly string[];
  filters: readonly FilterGroup[];
  sorts: readonly Sort[];
};

export function rowsKey(slug: string, table: string) {
  return ['project', slug, 'rows', table];
}

export function useRows({ slug, table, keyColumns, filters, sorts }: Options) {
  const query = useInfiniteQuery({
    queryKey: [...rowsKey(slug, table), filters, sorts],
    initialPageParam: { page: 1 } as Place,
    queryFn: ({ pageParam, signal }) => {
      const params: [string, string][] = [
        ['limit', String(gridPageRows)],
        ['numbers', 'string'],
        ...Object.entries(pageParam).map(([name, value]): [string, string] => [name, String(value)]),
        ...filters.map(groupParam),
        // A row without a key cannot be read again.
        ...(keyColumns.length > 0 ? [['max_value_chars', String(readChars)] as [string, string]] : []),
      ];
      if (sorts.length > 0) params.push(['order', orderParam(sorts)]);
      return api.get<PageResponse>(path`projects/${slug}/tables/${table}`, params, signal);
    },
    getNextPageParam: (last): Place | undefined => {
      if (last.next_cursor) return { cursor: last.next_cursor };
      return last.has_more && last.page ? { page: last.page + 1 } : undefined;
    },
    // Rows must not change under a selection; "Refresh" reads them again.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const rows = useMemo(
    () =>
      (query.data?.pages ?? []).flatMap(({ rows: page }, pageIndex) =>
        page.map(
          (values, index): StoredRow => ({ key: keyOf(values, keyColumns, `${pageIndex} ${index}`), values }),
        ),
      ),
    [query.data, keyColumns],
  );
  return { ...query, rows };
}

/** Without a primary key, a row has only its place. Such a table is not edited here. */
function keyOf(values: Record<string, unknown>, keyColumns: readonly string[], place: string): string {
  return keyColumns.length > 0
    ? JSON.stringify(keyColumns.map((column) => values[column]))
    : `place ${place}`;
}
