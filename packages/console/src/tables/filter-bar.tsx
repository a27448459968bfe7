import { type FormEvent, useState } from 'react';
import type { Column } from '../api/queries.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { Icon } from '../ui/icons.tsx';
import { Popover } from '../ui/menu.tsx';
import { type Filter, needsValue, type Operator, operators } from './filters.ts';

type Props = {
  columns: readonly Column[];
  filters: readonly Filter[];
  onChange: (filters: Filter[]) => void;
};

const labelOf = (operator: Operator) => operators.find(({ key }) => key === operator)?.label ?? operator;

export function FilterBar({ columns, filters, onChange }: Props) {
  return (
    <div className="filters">
      <Popover
        label="New filter"
        trigger={(props) => (
          <button type="button" className="button button-ghost button-small" {...props}>
            <Icon name="filter" />
            <span className="button-label">Filter</span>
          </button>
        )}
      >
        {(close) => (
          <FilterForm
            columns={columns}
            onAdd={(filter) => {
              onChange([...filters, filter]);
              close();
            }}
          />
        )}
      </Popover>
      {filters.map((filter, index) => (
        <span key={`${filter.column} ${filter.operator} ${filter.value}`} className="chip">
          <span className="truncate">
            <b>{filter.column}</b> {labelOf(filter.operator)} {filter.value}
          </span>
          <IconButton
            label={`Remove the filter on ${filter.column}`}
            size="small"
            icon={<Icon name="close" size={12} />}
            onClick={() => onChange(filters.filter((_, at) => at !== index))}
          />
        </span>
      ))}
    </div>
  );
}

function FilterForm({ columns, onAdd }: { columns: readonly Column[]; onAdd: (filter: Filter) => void }) {
  const [column, setColumn] = useState(columns[0]?.name ?? '');
  const [operator, setOperator] = useState<Operator>('eq');
  const [value, setValue] = useState('');
  const hasValue = needsValue(operator);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAdd({ column, operator, value: hasValue ? value : '' });
  };
  return (
    <form className="filter-form" onSubmit={submit}>
      <SelectField
        label="Column"
        value={column}
        onChange={setColumn}
        options={columns.map(({ name }) => name)}
      />
      <SelectField
        label="Condition"
        value={operator}
        onChange={(key) => setOperator(operators.find((known) => known.key === key)?.key ?? 'eq')}
        options={operators.map(({ key, label }) => ({ value: key, label }))}
      />
      {hasValue ? (
        <Field
          label="Value"
          value={value}
          onChange={setValue}
          mono
          help={operator.endsWith('in') ? 'Separate values with commas.' : undefined}
        />
      ) : null}
      <Button kind="primary" type="submit" size="small">
        Add filter
      </Button>
    </form>
  );
}
