import { useId } from 'react';
import { IconButton } from '../ui/button.tsx';
import { CheckField, Field, SelectField } from '../ui/field.tsx';
import { Icon } from '../ui/icons.tsx';
import { commonTypes, type NewColumn } from './create-table-sql.ts';

type Props = {
  column: NewColumn;
  number: number;
  tables: readonly string[];
  onChange: (part: Partial<NewColumn>) => void;
  /** null: a table needs a column. */
  onRemove: (() => void) | null;
};

export function ColumnEditor({ column, number, tables, onChange, onRemove }: Props) {
  const listId = useId();
  return (
    <li className="column-editor">
      <Field
        label={`Column ${number}`}
        value={column.name}
        onChange={(name) => onChange({ name })}
        maxLength={63}
        mono
      />
      <Field label="Type" value={column.type} onChange={(type) => onChange({ type })} list={listId} mono />
      <datalist id={listId}>
        {commonTypes.map((type) => (
          <option key={type} value={type} />
        ))}
      </datalist>
      <Field
        label="Default"
        value={column.byDefault}
        onChange={(byDefault) => onChange({ byDefault })}
        placeholder="none"
        mono
      />
      <SelectField
        label="Refers to"
        value={column.refersTo}
        onChange={(refersTo) => onChange({ refersTo })}
        options={[{ value: '', label: 'nothing' }, ...tables]}
      />
      <CheckField label="Key" checked={column.isKey} onChange={(isKey) => onChange({ isKey })} />
      <CheckField
        label="Not null"
        checked={column.isRequired || column.isKey}
        onChange={(isRequired) => onChange({ isRequired })}
      />
      {onRemove ? (
        <IconButton
          label={`Remove column ${number}`}
          size="small"
          icon={<Icon name="trash" />}
          onClick={onRemove}
        />
      ) : null}
    </li>
  );
}
