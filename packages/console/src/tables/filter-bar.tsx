// The filters of a table. A row must match all of them. Each can have alternatives, of which one is enough.
import { type FormEvent, Fragment, type ReactNode, useState } from 'react';
import type { Column } from '../api/queries.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { Icon } from '../ui/icons.tsx';
import { Popover } from '../ui/menu.tsx';
import {
  type Filter,
  type FilterGroup,
  needsValue,
  type Operator,
  operators,
  writeFilters,
} from './filters.ts';

type Props = {
  columns: readonly Column[];
  filters: readonly FilterGroup[];
  onChange: (filters: FilterGroup[]) => void;
};

const labelOf = (operator: Operator) => operators.find(({ key }) => key === operator)?.label ?? operator;

export function FilterBar({ columns, filters, onChange }: Props) {
  const replace = (index: number, group: FilterGroup | null) =>
    onChange(filters.flatMap((before, at) => (at === index ? (group ? [group] : []) : [before])));
  return (
    <div className="filters">
      <AddFilter label="New filter" columns={columns} onAdd={(filter) => onChange([...filters, [filter]])}>
        <Icon name="filter" />
        <span className="button-label">Filter</span>
      </AddFilter>
      {filters.map((group, index) => {
        const names = [...new Set(group.map(({ column }) => column))].join(' or ');
        return (
          <span key={writeFilters(group)} className="chip">
            <span className="truncate" title={group.map(textOf).join(' or ')}>
              {group.map((filter, at) => (
                <Fragment key={writeFilters([filter])}>
                  {at > 0 ? <span className="faint"> or </span> : null}
                  <b>{filter.column}</b> {labelOf(filter.operator)} {filter.value}
                </Fragment>
              ))}
            </span>
            <AddFilter
              label={`Or: an alternative to the filter on ${names}`}
              isNamed
              columns={columns}
              onAdd={(filter) => replace(index, [...group, filter])}
            >
              or
            </AddFilter>
            <IconButton
              label={`Remove the filter on ${names}`}
              size="small"
              icon={<Icon name="close" size={12} />}
              onClick={() => replace(index, null)}
            />
          </span>
        );
      })}
    </div>
  );
}

const textOf = ({ column, operator, value }: Filter) => `${column} ${labelOf(operator)} ${value}`.trim();

type AddProps = {
  label: string;
  columns: readonly Column[];
  onAdd: (filter: Filter) => void;
  /** The label also names the button, whose content says too little. */
  isNamed?: boolean;
  children: ReactNode;
};

function AddFilter({ label, columns, onAdd, isNamed = false, children }: AddProps) {
  return (
    <Popover
      label={label}
      trigger={(props) => (
        <button
          type="button"
          className="button button-ghost button-small"
          aria-label={isNamed ? label : undefined}
          {...props}
        >
          {children}
        </button>
      )}
    >
      {(close) => (
        <FilterForm
          columns={columns}
          onAdd={(filter) => {
            onAdd(filter);
            close();
          }}
        />
      )}
    </Popover>
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
