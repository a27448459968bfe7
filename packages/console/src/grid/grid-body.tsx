import type { Virtualizer } from '@tanstack/react-virtual';
import type { MouseEvent, ReactNode } from 'react';
import { gutterWidth, rowHeight } from './pixels.ts';
import { type Cell, contains, extendTo, type Rect, type Selection, select, selectRows } from './selection.ts';
import type { GridSource } from './source.ts';
import { kindOf, previewOf } from './value.ts';

type Props = {
  id: string;
  rows: Virtualizer<HTMLDivElement, Element>;
  columns: Virtualizer<HTMLDivElement, Element>;
  source: GridSource;
  rect: Rect;
  focus: Cell;
  selection: Selection;
  width: number;
  onSelect: (selection: Selection) => void;
  onActivate: () => void;
  /** Shown in the focused cell. */
  editor: ReactNode;
};

export function GridBody(props: Props) {
  const { rows, width } = props;
  return (
    <div role="rowgroup" className="grid-body" style={{ height: rows.getTotalSize(), width }}>
      {rows.getVirtualItems().map((item) => (
        <Row key={item.index} {...props} row={item.index} top={item.start} />
      ))}
    </div>
  );
}

function Row({ row, top, ...props }: Props & { row: number; top: number }) {
  const { columns, source, rect, selection, onSelect, width } = props;
  const state = source.rowState?.(row) ?? null;
  const size = { rows: source.rowCount, columns: source.columns.length };
  const isInRect = row >= rect.top && row <= rect.bottom;
  const selectRow = (event: MouseEvent) => {
    event.preventDefault();
    onSelect(selectRows(event.shiftKey ? selection.anchor.row : row, row, size));
  };
  return (
    <div
      role="row"
      aria-rowindex={row + 2}
      className={`grid-row${state ? ` grid-row-${state}` : ''}`}
      style={{ transform: `translateY(${top}px)`, height: rowHeight, width }}
    >
      <div
        role="rowheader"
        aria-colindex={1}
        className={isInRect ? 'grid-gutter grid-gutter-on' : 'grid-gutter'}
        style={{ width: gutterWidth }}
        onMouseDown={selectRow}
      >
        {state === 'conflict' ? <b title="Somebody else has changed this row">!</b> : null}
        {state === 'new' ? '+' : row + 1}
      </div>
      {columns.getVirtualItems().map((item) => (
        <GridCell
          key={item.index}
          {...props}
          row={row}
          column={item.index}
          left={item.start}
          size={item.size}
        />
      ))}
    </div>
  );
}

type CellProps = Omit<Props, 'rows' | 'columns' | 'width'> & {
  row: number;
  column: number;
  left: number;
  size: number;
};

function GridCell({
  id,
  source,
  rect,
  focus,
  selection,
  onSelect,
  onActivate,
  editor,
  row,
  column,
  left,
  size,
}: CellProps) {
  const definition = source.columns[column];
  if (!definition) return null;
  const value = source.valueAt(row, definition.name);
  const isFocus = row === focus.row && column === focus.column;
  const isSelected = contains(rect, row, column);
  const cell = { row, column };
  const classes = ['grid-cell'];
  if (kindOf(definition.type) === 'number') classes.push('grid-cell-number');
  if (isSelected) classes.push('grid-cell-on');
  if (isFocus) classes.push('grid-cell-focus');
  if (source.isChanged?.(row, definition.name)) classes.push('grid-cell-changed');
  return (
    <div
      id={`${id}-${row}-${column}`}
      role="gridcell"
      aria-colindex={column + 2}
      aria-selected={isSelected}
      className={classes.join(' ')}
      style={{ left: gutterWidth + left, width: size }}
      onMouseDown={(event) => {
        if (event.button !== 0 || (isFocus && editor)) return;
        event.preventDefault();
        onSelect(event.shiftKey ? extendTo(selection, cell) : select(cell));
      }}
      onMouseEnter={(event) => {
        if (event.buttons === 1 && !editor) onSelect(extendTo(selection, cell));
      }}
      onDoubleClick={onActivate}
    >
      {isFocus && editor ? editor : <CellText value={value} type={definition.type} />}
    </div>
  );
}

/** NULL, an empty text and a default that is not known yet look different from each other and from any text. */
function CellText({ value, type }: { value: unknown; type: string }) {
  if (value === undefined) return <span className="grid-mark">default</span>;
  if (value === null) return <span className="grid-mark">NULL</span>;
  if (value === '') return <span className="grid-mark">empty</span>;
  return <span className="grid-text">{previewOf(value, type)}</span>;
}
