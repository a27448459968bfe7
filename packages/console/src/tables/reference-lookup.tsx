// Finds the row that a foreign key should refer to, by a part of its text or by its key.
import type { PageResponse } from '@rowhouse/api';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { type Reference, schemaQuery, type Table } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { kindOf, previewOf, textOf } from '../grid/value.ts';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { filterParam, groupParam } from './filters.ts';
import { tableName } from './table-name.ts';

const shownMax = 8;

/** `onPick`: the texts of the columns of the foreign key. */
type Props = { slug: string; reference: Reference; onPick: (texts: Record<string, string>) => void };

export function ReferenceLookup({ slug, reference, onPick }: Props) {
  const { data: schema } = useQuery(schemaQuery(slug));
  const [search, setSearch] = useState('');
  const wanted = useDeferredValue(search.trim());
  const target = tableName(reference.target);
  const table = schema?.tables.find((candidate) => tableName(candidate) === target);
  const keys = reference.target_columns;
  const label = labelColumn(table, keys);
  const { data, error } = useQuery({
    queryKey: ['project', slug, 'lookup', target, label, wanted],
    queryFn: ({ signal }) => {
      const params: [string, string][] = [
        ['limit', String(shownMax)],
        ['numbers', 'string'],
      ];
      if (wanted !== '') {
        params.push(
          label
            ? filterParam({ column: label, operator: 'ilike', value: wanted })
            : groupParam(keys.map((column) => ({ column, operator: 'eq', value: wanted }))),
        );
      }
      return api.get<PageResponse>(path`projects/${slug}/tables/${target}`, params, signal);
    },
    enabled: table !== undefined,
    placeholderData: keepPreviousData,
  });
  return (
    <section className="peek" aria-label={`Rows of ${target}`}>
      <Field
        label={`Find in ${target}`}
        value={search}
        onChange={setSearch}
        placeholder={label ? `a part of ${label}` : `the whole ${keys.join(' or ')}`}
      />
      {error ? <ErrorNote error={error} /> : null}
      <ul className="lookup">
        {(data?.rows ?? []).map((row) => {
          const values = keys.map((key) => textOf(row[key]));
          const picked = Object.fromEntries(reference.columns.map((name, at) => [name, values[at] ?? '']));
          return (
            <li key={JSON.stringify(values)}>
              <button type="button" className="menu-item" onClick={() => onPick(picked)}>
                <span className="mono">{values.join(', ')}</span>
                {label ? <span className="truncate muted">{previewOf(row[label], 'text')}</span> : null}
              </button>
            </li>
          );
        })}
      </ul>
      {data && data.rows.length === 0 ? <p className="faint">No row matches.</p> : null}
    </section>
  );
}

/** The first text column says what a row is. */
function labelColumn(table: Table | undefined, keys: readonly string[]): string | null {
  return (
    table?.columns.find(({ name, type }) => !keys.includes(name) && kindOf(type) === 'text')?.name ?? null
  );
}
