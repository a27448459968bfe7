// The rows that somebody else changed meanwhile, and what the person decides about each.
import type { Table } from '../api/queries.ts';
import type { Resolution, Staged } from '../grid/staged.ts';
import { previewOf } from '../grid/value.ts';
import { Button } from '../ui/button.tsx';
import { plural } from '../ui/format.ts';
import { Digest } from './change-sql.ts';
import { type Conflict, choicesFor } from './conflicts.ts';

type Props = {
  table: Table;
  staged: Staged;
  conflicts: readonly Conflict[];
  onResolve: (conflicts: readonly Conflict[], resolution: Resolution) => void;
};

const labels = { theirs: 'Take theirs', mine: 'Keep mine', drop: 'Drop this row' } as const;
const labelsForAll = { theirs: 'Take theirs everywhere', mine: 'Keep mine everywhere', drop: 'Drop all' };

export function ConflictList({ table, staged, conflicts, onResolve }: Props) {
  const common = (['theirs', 'mine', 'drop'] as const).filter((choice) =>
    conflicts.every((one) => (choicesFor(table, staged, one) as readonly Resolution[]).includes(choice)),
  );
  return (
    <section className="stack conflicts" aria-label="Conflicts">
      <p className="note note-warn" role="alert">
        {plural(conflicts.length, 'row')} cannot be changed as shown. Nothing is applied before you decide.
      </p>
      {conflicts.length > 1 ? (
        <div className="row row-wrap">
          {common.map((choice) => (
            <Button key={choice} size="small" onClick={() => onResolve(conflicts, choice)}>
              {labelsForAll[choice]}
            </Button>
          ))}
        </div>
      ) : null}
      {conflicts.slice(0, shownMax).map((conflict) => (
        <fieldset key={conflict.key} className="fieldset">
          <legend className="mono">{nameOf(table, conflict)}</legend>
          <p className="muted">{about(staged, conflict)}</p>
          <Values table={table} staged={staged} conflict={conflict} />
          <div className="row row-wrap">
            {choicesFor(table, staged, conflict).map((choice) => (
              <Button key={choice} size="small" onClick={() => onResolve([conflict], choice)}>
                {choice === 'mine' && !conflict.theirs ? 'Insert it again' : labels[choice]}
              </Button>
            ))}
          </div>
        </fieldset>
      ))}
      {conflicts.length > shownMax ? (
        <p className="faint">{plural(conflicts.length - shownMax, 'more row')} after these.</p>
      ) : null}
    </section>
  );
}

const shownMax = 50;

function nameOf(table: Table, { key }: Conflict): string {
  if (key.startsWith('new ')) return 'A new row';
  const values = JSON.parse(key) as unknown[];
  return table.primary_key.map((column, index) => `${column} = ${String(values[index])}`).join(', ');
}

function about(staged: Staged, { key, theirs, isRefused }: Conflict): string {
  if (isRefused)
    return 'PostgreSQL did not change this row, although nobody else did. A policy or a trigger may prevent it.';
  if (!theirs) return 'Somebody else has deleted this row, or it cannot be seen any more.';
  if (staged.deleted.has(key)) return 'Somebody else has changed this row since you decided to delete it.';
  return 'Somebody else has changed what you want to change.';
}

function Values({ table, staged, conflict }: Pick<Props, 'table' | 'staged'> & { conflict: Conflict }) {
  const { key, columns, theirs } = conflict;
  const change = staged.changed.get(key);
  const before = change?.before ?? staged.deleted.get(key);
  if (!theirs || columns.length === 0) return null;
  const textOf = (column: string, value: unknown) => {
    if (value === null) return 'NULL';
    if (value instanceof Digest) return 'another value';
    return previewOf(value, table.columns.find(({ name }) => name === column)?.type ?? 'text');
  };
  return (
    <table className="conflict-values">
      <thead>
        <tr>
          <th scope="col">Column</th>
          <th scope="col">You saw</th>
          <th scope="col">It is now</th>
          {change ? <th scope="col">You want</th> : null}
        </tr>
      </thead>
      <tbody>
        {columns.map((column) => (
          <tr key={column}>
            <th scope="row">{column}</th>
            <td>{textOf(column, before?.[column])}</td>
            <td>{textOf(column, theirs[column])}</td>
            {change ? <td>{textOf(column, change.set[column])}</td> : null}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
