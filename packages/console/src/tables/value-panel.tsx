// One value, whole: text as it is, JSON indented. NULL and the empty text are told apart. A foreign key shows its row.
import { useQuery } from '@tanstack/react-query';
import { Fragment, type ReactNode, useState } from 'react';
import type { Table } from '../api/queries.ts';
import type { GridColumn } from '../grid/source.ts';
import { editText } from '../grid/value.ts';
import { Badge } from '../ui/badge.tsx';
import { Button, IconButton } from '../ui/button.tsx';
import { Copy } from '../ui/copy.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { TextField } from '../ui/field.tsx';
import { plural } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { useUnsaved } from '../ui/leaving.ts';
import { Skeleton } from '../ui/skeleton.tsx';
import { ReferenceLookup } from './reference-lookup.tsx';
import { ReferencedRow } from './referenced-row.tsx';
import { tableName } from './table-name.ts';

type Props = {
  slug: string;
  table: Table;
  column: GridColumn;
  /** The key of the row that has the value. */
  rowKey: string;
  value: unknown;
  /** null: the value cannot be changed here. Returns the problem if the text does not fit. `seen`: the whole value, if it was read. */
  onChange: ((text: string | null, seen?: unknown) => string | null) | null;
  /** Other values of the row, for a foreign key of several columns. */
  columnValue: (column: string) => unknown;
  /** Sets all columns of a foreign key at once. null: the row cannot be changed here. */
  onPick: {
    canSet: (column: string) => boolean;
    set: (texts: Record<string, string>) => string | null;
  } | null;
  onClose: () => void;
};

/** `readWhole`: set if `value` is only the beginning. Resolves to undefined if the row is gone. */
export function ValuePanel({ readWhole, ...props }: Props & { readWhole: (() => Promise<unknown>) | null }) {
  const { slug, table, column, rowKey, value, onChange, onClose } = props;
  const { data, error } = useQuery({
    queryKey: ['project', slug, 'whole', tableName(table), column.name, rowKey, value],
    queryFn: async () => ({ value: await readWhole?.() }),
    enabled: readWhole !== null,
    staleTime: 0,
    gcTime: 0,
  });
  if (!readWhole) return <WholeValue {...props} />;
  if (data && data.value !== undefined) {
    const change = onChange && ((text: string | null) => onChange(text, data.value));
    return <WholeValue {...props} value={data.value} onChange={change} />;
  }
  return (
    <Panel column={column} onClose={onClose}>
      {error ? <ErrorNote error={error} /> : null}
      {data ? <p className="muted">This row no longer exists.</p> : null}
      {data || error ? null : <Skeleton lines={8} />}
    </Panel>
  );
}

function Panel({ column, onClose, children }: Pick<Props, 'column' | 'onClose'> & { children: ReactNode }) {
  return (
    <aside className="value-panel" aria-label={`Value of ${column.name}`}>
      <header className="row">
        <div className="grow">
          <h2 className="truncate">{column.name}</h2>
          <p className="faint mono">{column.type}</p>
        </div>
        <IconButton label="Close" size="small" icon={<Icon name="close" />} onClick={onClose} />
      </header>
      {children}
    </aside>
  );
}

function WholeValue({ slug, table, column, value, columnValue, onChange, onPick, onClose }: Props) {
  const stored = editText(value ?? null, column.type);
  const [text, setText] = useState(stored);
  const [problem, setProblem] = useState<string | null>(null);
  const isNull = value === null;
  useUnsaved(text === stored || !onChange ? null : `The value of ${column.name} that is not staged.`);
  const references = table.references.filter(({ columns }) => columns.includes(column.name));
  return (
    <Panel column={column} onClose={onClose}>
      <div className="row">
        {isNull ? <Badge tone="info">NULL</Badge> : null}
        {value === undefined ? <Badge>default</Badge> : null}
        {value === '' ? <Badge>empty text</Badge> : null}
        {isNull || value === undefined ? null : (
          <span className="faint">{plural(stored.length, 'character')}</span>
        )}
        <span className="grow" />
        <Copy text={stored} />
      </div>
      <TextField
        label="Value"
        isLabelHidden
        // A short value leaves its place to the row that it refers to.
        rows={stored.length > 80 || stored.includes('\n') ? 14 : 3}
        value={text}
        readOnly={!onChange}
        onChange={setText}
        error={problem}
      />
      {onChange ? (
        <div className="row">
          <Button
            size="small"
            kind="primary"
            disabled={text === stored && !isNull}
            onClick={() => setProblem(onChange(text))}
          >
            Stage this value
          </Button>
          {column.isNullable ? (
            <Button size="small" disabled={isNull} onClick={() => setProblem(onChange(null))}>
              Set NULL
            </Button>
          ) : null}
        </div>
      ) : null}
      {references.map((reference) => (
        <Fragment key={reference.columns.join(' ')}>
          <ReferencedRow
            slug={slug}
            reference={reference}
            columnValue={(name) => (name === column.name ? value : columnValue(name))}
          />
          {onPick && reference.columns.every(onPick.canSet) ? (
            <ReferenceLookup
              slug={slug}
              reference={reference}
              onPick={(picked) => {
                setText(picked[column.name] ?? '');
                setProblem(onPick.set(picked));
              }}
            />
          ) : null}
        </Fragment>
      ))}
    </Panel>
  );
}
