// What can be changed about a table by form, each as its fields and its DDL.
import type { Table } from '../api/queries.ts';
import { quoteName } from './change-sql.ts';
import { columnSql, newColumn, quoteTable } from './create-table-sql.ts';
import { tableName } from './table-name.ts';

export type ObjectKind = 'index' | 'constraint' | 'policy';
export type FieldKind =
  | 'name'
  | 'column'
  | 'columns'
  | 'type'
  | 'expression'
  | 'table'
  | 'flag'
  | 'command'
  | ObjectKind;
export type AlterField = { key: string; label: string; kind: FieldKind; isOptional?: boolean; help?: string };
/** A flag is "yes" or empty; several columns are a JSON array. */
export type Values = Record<string, string>;
export type Alteration = {
  label: string;
  fields: readonly AlterField[];
  sql: (table: string, values: Values, of: TableName) => string[];
  /** What the person agrees to before it runs. It names the object. Missing: nothing is lost. */
  confirm?: (of: TableName, values: Values) => string;
};
type TableName = Pick<Table, 'schema' | 'name'>;

const column: AlterField = { key: 'column', label: 'Column', kind: 'column' };
const columns: AlterField = { key: 'columns', label: 'Columns', kind: 'columns' };
/** The value of a field with several columns. A name can contain every character, so it is JSON. */
export const readList = (value = '') => (value === '' ? [] : (JSON.parse(value) as string[]));
const quoteList = (value: string | undefined) => readList(value).map(quoteName).join(', ');
const constraintName: AlterField = {
  key: 'name',
  label: 'Name',
  kind: 'name',
  isOptional: true,
  help: 'Empty: PostgreSQL chooses one.',
};
const named = (name = '') => (name.trim() === '' ? '' : `constraint ${quoteName(name)} `);
const alterColumn = (table: string, { column: name = '' }: Values, change: string) => [
  `alter table ${table} alter column ${quoteName(name)} ${change}`,
];

export const alterations = {
  'add-column': {
    label: 'Add a column',
    fields: [
      { key: 'name', label: 'Name', kind: 'name' },
      { key: 'type', label: 'Type', kind: 'type' },
      { key: 'default', label: 'Default', kind: 'expression', isOptional: true, help: 'An SQL expression.' },
      { key: 'required', label: 'Not null', kind: 'flag' },
      { key: 'refersTo', label: 'Refers to', kind: 'table', isOptional: true },
    ],
    sql: (table, { name = '', type = 'text', default: byDefault = '', required, refersTo = '' }) => {
      const added = newColumn({ name, type, byDefault, refersTo, isRequired: required === 'yes' });
      return [`alter table ${table} add column ${columnSql(added, false)}`];
    },
  },
  'rename-column': {
    label: 'Rename a column',
    fields: [column, { key: 'name', label: 'New name', kind: 'name' }],
    sql: (table, { column: from = '', name = '' }) => [
      `alter table ${table} rename column ${quoteName(from)} to ${quoteName(name)}`,
    ],
  },
  'change-type': {
    label: 'Change the type of a column',
    fields: [
      column,
      { key: 'type', label: 'New type', kind: 'type' },
      {
        key: 'using',
        label: 'Using',
        kind: 'expression',
        isOptional: true,
        help: 'How a value becomes one of the new type, if PostgreSQL does not know.',
      },
    ],
    sql: (table, values) =>
      alterColumn(table, values, `type ${values.type}${values.using ? ` using ${values.using}` : ''}`),
  },
  'set-not-null': {
    label: 'Require a value (not null)',
    fields: [column],
    sql: (table, values) => alterColumn(table, values, 'set not null'),
  },
  'drop-not-null': {
    label: 'Allow NULL',
    fields: [column],
    sql: (table, values) => alterColumn(table, values, 'drop not null'),
  },
  'set-default': {
    label: 'Set or remove a default',
    fields: [
      column,
      {
        key: 'default',
        label: 'Default',
        kind: 'expression',
        isOptional: true,
        help: 'A SQL expression. Empty: the default is removed.',
      },
    ],
    sql: (table, values) =>
      alterColumn(table, values, values.default ? `set default ${values.default}` : 'drop default'),
  },
  'drop-column': {
    label: 'Drop a column',
    fields: [column],
    sql: (table, { column: name = '' }) => [`alter table ${table} drop column ${quoteName(name)}`],
    confirm: (of, { column: name }) => `Drop the column “${name}” of ${tableName(of)} with all of its values`,
  },
  'add-index': {
    label: 'Add an index',
    fields: [columns, { key: 'unique', label: 'Unique', kind: 'flag' }],
    sql: (table, { columns: names, unique }) => [
      `create ${unique ? 'unique ' : ''}index on ${table} (${quoteList(names)})`,
    ],
  },
  'drop-index': {
    label: 'Drop an index',
    fields: [{ key: 'index', label: 'Index', kind: 'index' }],
    // An index is in the schema of its table.
    sql: (_, { index: name = '' }, { schema }) => [`drop index ${nameOfTable({ schema, name })}`],
    confirm: (of, { index }) => `Drop the index “${index}” of ${tableName(of)}`,
  },
  'add-foreign-key': {
    label: 'Add a foreign key',
    fields: [column, { key: 'target', label: 'Refers to', kind: 'table' }],
    sql: (table, { column: name = '', target = '' }) => [
      `alter table ${table} add foreign key (${quoteName(name)}) references ${quoteTable(target)}`,
    ],
  },
  'add-unique': {
    label: 'Add a unique constraint',
    fields: [columns, constraintName],
    sql: (table, { columns: names, name }) => [
      `alter table ${table} add ${named(name)}unique (${quoteList(names)})`,
    ],
  },
  'add-check': {
    label: 'Add a check',
    fields: [
      { key: 'check', label: 'Condition', kind: 'expression', help: 'Such as price >= 0.' },
      constraintName,
    ],
    sql: (table, { check, name }) => [`alter table ${table} add ${named(name)}check (${check})`],
  },
  'drop-constraint': {
    label: 'Drop a constraint',
    fields: [{ key: 'constraint', label: 'Constraint', kind: 'constraint' }],
    sql: (table, { constraint = '' }) => [`alter table ${table} drop constraint ${quoteName(constraint)}`],
    confirm: (of, { constraint }) => `Drop the constraint “${constraint}” of ${tableName(of)}`,
  },
  'row-security-on': {
    label: 'Turn row security on',
    fields: [],
    sql: (table) => [`alter table ${table} enable row level security`],
  },
  'row-security-off': {
    label: 'Turn row security off',
    fields: [],
    sql: (table) => [`alter table ${table} disable row level security`],
    confirm: (of) => `Let everyone who may use ${tableName(of)} see and change all of its rows`,
  },
  'add-policy': {
    label: 'Add a policy',
    fields: [
      { key: 'name', label: 'Name', kind: 'name' },
      { key: 'command', label: 'For', kind: 'command' },
      { key: 'role', label: 'Role', kind: 'name', help: 'Such as authenticated or anon.' },
      {
        key: 'using',
        label: 'Rows that are seen',
        kind: 'expression',
        isOptional: true,
        help: 'Such as owner = auth.uid(). Not for insert.',
      },
      {
        key: 'check',
        label: 'Rows that may be written',
        kind: 'expression',
        isOptional: true,
        help: 'Not for select and delete.',
      },
    ],
    sql: (table, { name = '', command = 'all', role = '', using, check }) => [
      [
        `create policy ${quoteName(name)} on ${table} for ${command} to ${quoteName(role)}`,
        using ? `using (${using})` : '',
        check ? `with check (${check})` : '',
      ]
        .filter(Boolean)
        .join(' '),
    ],
  },
  'drop-policy': {
    label: 'Drop a policy',
    fields: [{ key: 'policy', label: 'Policy', kind: 'policy' }],
    sql: (table, { policy = '' }) => [`drop policy ${quoteName(policy)} on ${table}`],
    confirm: (of, { policy }) => `Drop the policy “${policy}” of ${tableName(of)}`,
  },
  'rename-table': {
    label: 'Rename the table',
    fields: [{ key: 'name', label: 'New name', kind: 'name' }],
    sql: (table, { name = '' }) => [`alter table ${table} rename to ${quoteName(name)}`],
  },
  'drop-table': {
    label: 'Drop the table',
    fields: [],
    sql: (table) => [`drop table ${table}`],
    confirm: (of) => `Drop the table “${tableName(of)}” with all of its rows`,
  },
} as const satisfies Record<string, Alteration>;
export type AlterationKey = keyof typeof alterations;

/** Why the form cannot be run yet; null: it can. */
export function missingField({ fields }: Alteration, values: Values): string | null {
  const missing = fields.find(
    ({ key, kind, isOptional }) =>
      !isOptional && kind !== 'flag' && kind !== 'command' && !values[key]?.trim(),
  );
  return missing ? missing.label : null;
}

export const nameOfTable = ({ schema, name }: TableName) =>
  schema === 'public' ? quoteName(name) : `${quoteName(schema)}.${quoteName(name)}`;
