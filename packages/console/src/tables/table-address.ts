// Filters and order of the page's address, so that a view of a table can be shared.
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { type FilterGroup, readFilters, readSort, type Sort, writeFilters, writeSort } from './filters.ts';

export function useTableAddress() {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  return useMemo(() => {
    const now = new URLSearchParams(text);
    const filters = now.getAll('filter').flatMap((item) => {
      const group = readFilters(item);
      return group ? [group] : [];
    });
    const sorts = now.getAll('sort').flatMap((item) => readSort(item) ?? []);
    const set = (name: string, values: string[]) =>
      setParams((before) => {
        const next = new URLSearchParams(before);
        next.delete(name);
        for (const value of values) next.append(name, value);
        return next;
      });
    const toggleSort = (column: string) => {
      const current = sorts.find((sort) => sort.column === column);
      const next: Sort[] = current?.isDescending ? [] : [{ column, isDescending: current !== undefined }];
      set('sort', next.map(writeSort));
    };
    return {
      filters,
      sorts,
      toggleSort,
      setFilters: (next: FilterGroup[]) => set('filter', next.map(writeFilters)),
    };
  }, [text, setParams]);
}
