// Changes a table by form: columns, indexes, constraints, policies.
import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { useLocation } from 'wouter';
import { type Table, tablesQuery } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { CheckField, Field, SelectField } from '../ui/field.tsx';
import { leaveFreely } from '../ui/leaving.ts';
import {
  type Alteration,
  type AlterationKey,
  type AlterField,
  alterations,
  missingField,
  nameOfTable,
  readList,
  type Values,
} from './alter-sql.ts';
import { commonTypes } from './create-table-sql.ts';
import { ObjectField } from './object-field.tsx';
import { RunDdl } from './run-ddl.tsx';
import { tableName } from './table-name.ts';

type Props = { slug: string; table: Table; onClose: () => void };

const initial: Values = { type: 'text', role: 'authenticated', command: 'all' };
const options = Object.entries(alterations).map(([value, { label }]) => ({ value, label }));

export function StructureDialog({ slug, table, onClose }: Props) {
  const [, go] = useLocation();
  const [key, setKey] = useState<AlterationKey>('add-column');
  const [values, setValues] = useState(initial);
  const alteration: Alteration = alterations[key];
  const { label, fields, sql, confirm } = alteration;
  const missing = missingField(alteration, values);
  const leave = () => {
    onClose();
    if (key === 'drop-table') go(`/projects/${slug}/tables`);
    if (key === 'rename-table') {
      const renamed = tableName({ schema: table.schema, name: values.name ?? '' });
      go(`/projects/${slug}/tables/${encodeURIComponent(renamed)}`);
    }
  };
  return (
    <Dialog title={`Structure of ${tableName(table)}`} kind="wide" onClose={onClose} isForm>
      <div className="stack">
        <SelectField
          label="Change"
          value={key}
          options={options}
          onChange={(next) => {
            setKey(next as AlterationKey);
            setValues(initial);
          }}
        />
        {fields.map((field) => (
          <FormField
            key={`${key} ${field.key}`}
            slug={slug}
            table={table}
            field={field}
            value={values[field.key] ?? ''}
            onChange={(value) => setValues((now) => ({ ...now, [field.key]: value }))}
          />
        ))}
        <RunDdl
          slug={slug}
          statements={sql(nameOfTable(table), values, table)}
          action={label}
          problem={missing ? `Fill in “${missing}”.` : null}
          confirm={confirm?.(table, values) ?? null}
          done={`The structure of ${tableName(table)} is changed.`}
          onDone={() => leaveFreely(leave)}
        />
      </div>
    </Dialog>
  );
}

type FieldProps = {
  slug: string;
  table: Table;
  field: AlterField;
  value: string;
  onChange: (value: string) => void;
};

function FormField({ slug, table, field, value, onChange }: FieldProps) {
  const listId = useId();
  const { data: tables = [] } = useQuery(tablesQuery(slug));
  const names = table.columns.map(({ name }) => name);
  const choose = (texts: readonly string[]) => [{ value: '', label: 'Choose …' }, ...texts];
  const props = { label: field.label, help: field.help, value, onChange };
  switch (field.kind) {
    case 'column':
      return <SelectField {...props} options={choose(names)} />;
    case 'table':
      return <SelectField {...props} options={choose(tables.map(tableName))} />;
    case 'command':
      return <SelectField {...props} options={['all', 'select', 'insert', 'update', 'delete']} />;
    case 'flag':
      return (
        <CheckField
          label={field.label}
          checked={value === 'yes'}
          onChange={(isOn) => onChange(isOn ? 'yes' : '')}
        />
      );
    case 'index':
    case 'constraint':
    case 'policy':
      return <ObjectField slug={slug} table={table} kind={field.kind} {...props} />;
    case 'columns':
      return <ColumnsField label={field.label} names={names} value={value} onChange={onChange} />;
    case 'type':
      return (
        <>
          <Field {...props} list={listId} mono />
          <datalist id={listId}>
            {commonTypes.map((type) => (
              <option key={type} value={type} />
            ))}
          </datalist>
        </>
      );
    default:
      return <Field {...props} mono />;
  }
}

type ColumnsProps = {
  label: string;
  names: readonly string[];
  value: string;
  onChange: (value: string) => void;
};

/** Columns in the order in which they are chosen, which is the order of an index. */
function ColumnsField({ label, names, value, onChange }: ColumnsProps) {
  const chosen = readList(value);
  const toggle = (name: string, isOn: boolean) => {
    const next = isOn ? [...chosen, name] : chosen.filter((other) => other !== name);
    onChange(next.length > 0 ? JSON.stringify(next) : '');
  };
  return (
    <fieldset className="fieldset">
      <legend>{label}</legend>
      {names.map((name) => (
        <CheckField
          key={name}
          label={name}
          checked={chosen.includes(name)}
          onChange={(isOn) => toggle(name, isOn)}
        />
      ))}
    </fieldset>
  );
}
