import type { VirtualItem } from '@tanstack/react-virtual';
import { Icon } from '../ui/icons.tsx';
import { gutterWidth } from './pixels.ts';
import type { GridColumn, GridSource } from './source.ts';

type Props = {
  columns: VirtualItem[];
  source: GridSource;
  width: number;
  onSort: ((column: string) => void) | undefined;
  onResize: (column: string, width: number) => void;
};

const leastWidth = 60;

export function GridHead({ columns, source, width, onSort, onResize }: Props) {
  return (
    <div role="rowgroup" className="grid-head" style={{ width }}>
      <div role="row" aria-rowindex={1} className="grid-row">
        <div role="columnheader" aria-colindex={1} className="grid-gutter" style={{ width: gutterWidth }}>
          <span className="visually-hidden">Row</span>
        </div>
        {columns.map((item) => {
          const column = source.columns[item.index];
          if (!column) return null;
          return (
            <div
              key={column.name}
              role="columnheader"
              aria-colindex={item.index + 2}
              aria-sort={column.sort}
              className="grid-title"
              style={{ left: gutterWidth + item.start, width: item.size }}
            >
              <Title column={column} onSort={onSort} />
              <Handle name={column.name} width={item.size} onResize={onResize} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Title({ column, onSort }: { column: GridColumn; onSort: Props['onSort'] }) {
  const content = (
    <>
      {column.isKey ? <Icon name="key" size={12} /> : null}
      {column.refersTo ? <Icon name="link" size={12} /> : null}
      <span className="grid-title-name">{column.name}</span>
      <span className="grid-title-type">{column.type}</span>
      {column.sort ? <span aria-hidden="true">{column.sort === 'ascending' ? '↑' : '↓'}</span> : null}
    </>
  );
  const hint = `${column.name} ${column.type}${column.refersTo ? ` → ${column.refersTo}` : ''}`;
  if (!onSort) {
    return (
      <span className="grid-title-text" title={hint}>
        {content}
      </span>
    );
  }
  return (
    <button
      type="button"
      tabIndex={-1}
      className="grid-title-text"
      title={hint}
      onClick={() => onSort(column.name)}
    >
      {content}
    </button>
  );
}

function Handle({ name, width, onResize }: { name: string; width: number; onResize: Props['onResize'] }) {
  return (
    <span
      className="grid-handle"
      aria-hidden="true"
      onPointerDown={(event) => {
        const handle = event.currentTarget;
        const from = event.clientX;
        handle.setPointerCapture(event.pointerId);
        handle.onpointermove = (move) => onResize(name, Math.max(leastWidth, width + move.clientX - from));
        handle.onpointerup = () => {
          handle.onpointermove = null;
        };
        event.preventDefault();
      }}
    />
  );
}
