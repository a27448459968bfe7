// The data grid: rows and columns are virtual, the ARIA grid pattern by one tab stop and aria-activedescendant, ranges,
// copy and paste. It shows what a source gives and reports what a person wants; it keeps only widths and the open editor.
import { useVirtualizer, type Virtualizer } from '@tanstack/react-virtual';
import {
  type ClipboardEvent,
  type KeyboardEvent,
  type RefObject,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react';
import { CellEditor } from './cell-editor.tsx';
import { clearEdits, copyText, hasCut, pasteEdits } from './clipboard.ts';
import { GridBody } from './grid-body.tsx';
import { GridHead } from './grid-head.tsx';
import { defaultWidth, gutterWidth, rowHeight } from './pixels.ts';
import { moveSelection, rectOf, type Selection, select, selectAll } from './selection.ts';
import type { GridColumn, GridEdit, GridSource } from './source.ts';
import { readTsv } from './tsv.ts';
import { editText } from './value.ts';
import './grid.css';

type Props = {
  label: string;
  source: GridSource;
  selection: Selection;
  onSelect: (selection: Selection) => void;
  /** More rows are wanted. */
  onNearEnd?: () => void;
  onSort?: (column: string) => void;
  /** Returns the problem if a text does not fit. */
  onEdit?: (edits: GridEdit[]) => string | null;
  onOpen?: () => void;
  /** Copies a range with values of which only the beginning is here. */
  onCopyCut?: () => void;
  /** Undo, redo, delete and the like. Returns true if it used the key. */
  onCommand?: (command: GridCommand) => void;
};

export type GridCommand = 'undo' | 'redo' | 'delete-rows' | 'duplicate' | 'review' | 'discard';

const nearEndRows = 60;

export function Grid(props: Props) {
  const { label, source, selection, onSelect, onNearEnd, onSort, onEdit } = props;
  const id = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const [widths, setWidths] = useState<Record<string, number>>({});
  const [editing, setEditing] = useState<{ initial: string | null } | null>(null);
  const rows = useVirtualizer({
    count: source.rowCount,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
  });
  const columns = useColumns(source.columns, widths, scroller);
  const size = { rows: source.rowCount, columns: source.columns.length };
  const { focus } = selection;
  const focused = source.columns[focus.column];

  // Only when the focus moves or gets a new row: rows that arrive must not take a person who scrolls back to it.
  const isNewRow = source.rowState?.(focus.row) === 'new';
  const shown = useRef({ row: focus.row, isNewRow });
  useEffect(() => {
    const { row, isNewRow: wasNew } = shown.current;
    shown.current = { row: focus.row, isNewRow };
    if (focus.row !== row || (isNewRow && !wasNew)) rows.scrollToIndex(focus.row, { align: 'auto' });
  }, [focus.row, isNewRow, rows]);
  useEffect(() => showColumn(scroller.current, columns, focus.column), [focus.column, columns]);
  const last = rows.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (last > source.rowCount - nearEndRows) onNearEnd?.();
  }, [last, source.rowCount, onNearEnd]);

  const canEdit = onEdit !== undefined && focused !== undefined && !focused.isReadOnly;
  const isCut = focused !== undefined && source.isCut?.(focus.row, focused.name) === true;
  const move = (key: string, shift = false) => {
    const next = moveSelection(selection, { key, shift, ctrl: false }, size, 1);
    if (next) onSelect(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (editing || event.defaultPrevented) return;
    const ctrl = event.ctrlKey || event.metaKey;
    const pageRows = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 300) / rowHeight) - 2);
    const pressed = { key: event.key, shift: event.shiftKey, ctrl };
    const next = event.key === 'Tab' ? null : moveSelection(selection, pressed, size, pageRows);
    if (next) onSelect(next);
    else if (!handleKey(event, ctrl, { ...props, size, canEdit, isCut, setEditing })) return;
    event.preventDefault();
  };
  const onCopy = (event: ClipboardEvent) => {
    if (editing) return;
    event.preventDefault();
    if (!props.onCopyCut || !hasCut(source, selection)) {
      event.clipboardData.setData('text/plain', copyText(source, selection));
    } else props.onCopyCut();
  };
  const onPaste = (event: ClipboardEvent) => {
    if (editing || !onEdit) return;
    event.preventDefault();
    onEdit(pasteEdits(source, selection, readTsv(event.clipboardData.getData('text/plain'))));
  };
  const rect = rectOf(selection);
  const totalWidth = gutterWidth + columns.getTotalSize();
  return (
    <div
      ref={scroller}
      className="grid"
      role="grid"
      tabIndex={0}
      aria-label={label}
      aria-multiselectable="true"
      aria-rowcount={source.rowCount + 1}
      aria-colcount={source.columns.length + 1}
      aria-activedescendant={source.rowCount > 0 ? `${id}-${focus.row}-${focus.column}` : undefined}
      onKeyDown={onKeyDown}
      onCopy={onCopy}
      onPaste={onPaste}
    >
      <GridHead
        columns={columns.getVirtualItems()}
        source={source}
        width={totalWidth}
        onSort={onSort}
        onResize={(name, width) => setWidths((all) => ({ ...all, [name]: width }))}
      />
      <GridBody
        id={id}
        rows={rows}
        columns={columns}
        source={source}
        rect={rect}
        focus={focus}
        width={totalWidth}
        onSelect={(next) => {
          scroller.current?.focus({ preventScroll: true });
          onSelect(next);
        }}
        selection={selection}
        onActivate={() => (canEdit && !isCut ? setEditing({ initial: null }) : props.onOpen?.())}
        editor={
          editing && focused ? (
            <CellEditor
              column={focused}
              initial={
                editing.initial ?? editText(source.valueAt(focus.row, focused.name) ?? null, focused.type)
              }
              onCommit={(text, key) => {
                const problem = onEdit?.([{ row: focus.row, column: focused, text }]) ?? null;
                if (problem) return problem;
                setEditing(null);
                scroller.current?.focus({ preventScroll: true });
                if (key) move(key.key, key.shift);
                return null;
              }}
              onCancel={() => {
                setEditing(null);
                scroller.current?.focus({ preventScroll: true });
              }}
            />
          ) : null
        }
      />
    </div>
  );
}

type KeyContext = Props & {
  size: { rows: number; columns: number };
  canEdit: boolean;
  isCut: boolean;
  setEditing: (editing: { initial: string | null }) => void;
};

/** Keys other than movement. Returns whether it used the key. */
function handleKey(event: KeyboardEvent, ctrl: boolean, context: KeyContext): boolean {
  const { source, selection, onSelect, size, canEdit, isCut, setEditing, onEdit, onCommand, onOpen } =
    context;
  const { key } = event;
  if (ctrl) {
    const command = controlCommands[`${event.shiftKey ? 'Shift+' : ''}${key.toLowerCase()}`];
    if (key.toLowerCase() === 'a') onSelect(selectAll(size));
    else if (command && onCommand) onCommand(command);
    else return false;
    return true;
  }
  if (event.altKey) return false;
  if (key === ' ' && onOpen) onOpen();
  else if (key === 'Enter' || key === 'F2') {
    if (canEdit && !isCut) setEditing({ initial: null });
    else onOpen?.();
  } else if ((key === 'Delete' || key === 'Backspace') && onEdit) onEdit(clearEdits(source, selection));
  else if (key === 'Escape') onSelect(select(selection.focus));
  else if (key.length === 1 && canEdit) setEditing({ initial: key });
  else return false;
  return true;
}

const controlCommands: Record<string, GridCommand> = {
  z: 'undo',
  'Shift+z': 'redo',
  y: 'redo',
  backspace: 'delete-rows',
  delete: 'delete-rows',
  d: 'duplicate',
  s: 'review',
};

/** Column widths by type, until the person drags them. */
function useColumns(
  all: readonly GridColumn[],
  widths: Record<string, number>,
  scroller: RefObject<HTMLDivElement | null>,
): Virtualizer<HTMLDivElement, Element> {
  const columns = useVirtualizer({
    horizontal: true,
    count: all.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => widths[all[index]?.name ?? ''] ?? defaultWidth(all[index]),
    overscan: 3,
  });
  const total = all.reduce((sum, column) => sum + (widths[column.name] ?? defaultWidth(column)), 0);
  // The virtualizer keeps what it measured until it is told that a width changed.
  useEffect(() => {
    if (total >= 0) columns.measure();
  }, [columns, total]);
  return columns;
}

/** The gutter and the scroll bar cover parts of the width, which the virtualizer does not know. */
function showColumn(
  element: HTMLDivElement | null,
  columns: Virtualizer<HTMLDivElement, Element>,
  index: number,
) {
  const item = columns.measurementsCache[index];
  if (!element || !item) return;
  const left = item.start;
  const right = item.start + item.size + gutterWidth;
  if (left < element.scrollLeft) element.scrollLeft = left;
  else if (right > element.scrollLeft + element.clientWidth) element.scrollLeft = right - element.clientWidth;
}
