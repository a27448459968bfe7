import { useQuery } from '@tanstack/react-query';
import type { Table } from '../api/queries.ts';
import { ErrorNote } from '../ui/error-state.tsx';
import { SelectField } from '../ui/field.tsx';
import type { ObjectKind } from './alter-sql.ts';
import { objectsOf, partsQuery } from './table-objects.ts';

type Props = {
  slug: string;
  table: Table;
  kind: ObjectKind;
  label: string;
  value: string;
  onChange: (name: string) => void;
};

/** One of the indexes, constraints or policies that the table has, with its definition below. */
export function ObjectField({ slug, table, kind, label, value, onChange }: Props) {
  const { data, error } = useQuery(partsQuery(slug));
  if (error) return <ErrorNote error={error} />;
  const objects = data ? objectsOf(data, kind, table) : [];
  const first = !data ? 'Reading …' : objects.length > 0 ? 'Choose …' : `There is no ${kind} to drop`;
  return (
    <SelectField
      label={label}
      value={value}
      onChange={onChange}
      options={[{ value: '', label: first }, ...objects.map(({ name }) => name)]}
      help={objects.find(({ name }) => name === value)?.about}
    />
  );
}
