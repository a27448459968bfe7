// The rows of one table: filters and order are in the address, edits wait in `history` until they are reviewed.
import type { SchemaResponse } from '@rowhouse/api';
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';
import type { Table } from '../api/queries.ts';
import { copyText } from '../grid/clipboard.ts';
import { Grid, type GridCommand } from '../grid/grid.tsx';
import { clampSelection, rectOf, type Selection, startSelection } from '../grid/selection.ts';
import type { GridEdit } from '../grid/source.ts';
import {
  type CellEdit,
  canRedo,
  canUndo,
  countOf,
  discardAll,
  emptyHistory,
  insertRows,
  type Resolution,
  redo,
  resolve,
  type StoredRow,
  setCells,
  stagedOf,
  toggleDeleted,
  undo,
} from '../grid/staged.ts';
import { parseText } from '../grid/value.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorState } from '../ui/error-state.tsx';
import { plural } from '../ui/format.ts';
import { useUnsaved } from '../ui/leaving.ts';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { type Conflict, findConflicts, rowAgain } from './conflicts.ts';
import { exportTable } from './export-table.ts';
import { gridColumns, gridSource } from './grid-source.ts';
import { ImportDialog } from './import-dialog.tsx';
import { useKeptEdits } from './kept-edits.ts';
import { readWholeRow, readWholeRows } from './long-values.ts';
import { ReviewDialog } from './review-dialog.tsx';
import { StructureDialog } from './structure-dialog.tsx';
import { useTableAddress } from './table-address.ts';
import { tableName } from './table-name.ts';
import { TableToolbar } from './toolbar.tsx';
import { rowsKey, useRows } from './use-rows.ts';
import { ValuePanel } from './value-panel.tsx';

type Props = { slug: string; table: Table; enums: SchemaResponse['enums'] };

export function TableView({ slug, table, enums }: Props) {
  const client = useQueryClient();
  const name = tableName(table);
  const address = useTableAddress();
  const rows = useRows({ slug, table: name, keyColumns: table.primary_key, ...address });
  const [history, setHistory] = useKeptEdits(slug, name);
  const [selected, setSelected] = useState<Selection>(startSelection);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [isPanelOpen, setPanelOpen] = useState(false);
  const [open, setOpen] = useState<'review' | 'import' | 'structure' | null>(null);
  const isWritable = mayWrite(useSession());
  const isTable = table.kind === 'table' || table.kind === 'partitioned';
  const isEditable = isWritable && isTable && table.primary_key.length > 0;

  const staged = stagedOf(history);
  const pending = countOf(staged);
  const [found, setFound] = useState<readonly Conflict[]>([]);
  const conflicts = useMemo(
    () =>
      found.filter(({ key }) =>
        [staged.changed, staged.deleted, staged.inserted].some((rows) => rows.has(key)),
      ),
    [found, staged],
  );
  useUnsaved(pending > 0 ? `${plural(pending, 'unsaved change')} of ${name}.` : null, {
    survivesSearch: true,
  });
  const all = useMemo<StoredRow[]>(
    () => [...[...staged.inserted].map(([key, values]) => ({ key, values })), ...rows.rows],
    [staged.inserted, rows.rows],
  );
  const allColumns = useMemo(
    () => gridColumns(table, enums, address.sorts, isEditable),
    [table, enums, address.sorts, isEditable],
  );
  const columns = useMemo(() => allColumns.filter(({ name }) => !hidden.has(name)), [allColumns, hidden]);
  const source = useMemo(
    () => gridSource(columns, all, staged, conflicts, table.primary_key.length > 0),
    [columns, all, staged, conflicts, table],
  );
  const selection = clampSelection(selected, { rows: all.length, columns: columns.length });
  const rect = rectOf(selection);
  const chosen = all.slice(rect.top, rect.bottom + 1);

  const edit = (edits: GridEdit[]): string | null => {
    const cells: CellEdit[] = [];
    for (const { row, column, text, seen } of edits) {
      const stored = all[row];
      const example = all.find(({ values }) => (values[column.name] ?? null) !== null)?.values[column.name];
      const parsed = text === null ? { value: null } : parseText(text, column.type, example);
      if ('problem' in parsed) return `${column.name}: ${parsed.problem}`;
      if (stored) cells.push({ row: stored, column: column.name, value: parsed.value, seen });
    }
    if (cells.length > 0) setHistory((now) => setCells(now, cells));
    return null;
  };
  const columnOf = (column: string) => allColumns.find(({ name: known }) => known === column);
  const canSet = (column: string) => columnOf(column)?.isReadOnly === false;
  /** One step to undo, also for a foreign key of several columns. */
  const setReference = (texts: Record<string, string>) =>
    edit(
      Object.entries(texts).flatMap(([name, text]) => {
        const column = columnOf(name);
        return column ? [{ row: selection.focus.row, column, text }] : [];
      }),
    );
  const place = { slug, table };
  const duplicate = async () => {
    const copies = (await readWholeRows(place, chosen, staged)).map((values) => copyOf(table, values));
    setHistory((now) => insertRows(now, copies));
  };
  const copyWhole = async () => {
    const values = await readWholeRows(place, chosen, staged);
    const valueAt = (row: number, column: string) => values[row - rect.top]?.[column];
    await navigator.clipboard.writeText(copyText({ ...source, valueAt }, selection));
  };
  const command = (wanted: GridCommand) => {
    if (!isEditable) return;
    const steps: Record<GridCommand, () => void> = {
      undo: () => setHistory(undo),
      redo: () => setHistory(redo),
      discard: () => setHistory(discardAll),
      'delete-rows': () => setHistory((now) => toggleDeleted(now, chosen)),
      duplicate: () => void duplicate().catch(toast.failed),
      review: () => setOpen(pending > 0 ? 'review' : null),
    };
    steps[wanted]();
  };
  const insert = () => {
    setHistory((now) => insertRows(now, [{}]));
    setSelected(startSelection);
  };
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = rows;
  const loadMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const refresh = () => client.resetQueries({ queryKey: rowsKey(slug, name) });
  /** The staged edits are compared with the rows as they are now. */
  const refreshAll = async () => {
    await Promise.all([refresh(), pending > 0 ? findConflicts(place, staged).then(setFound) : null]);
  };
  const settle = (settled: readonly Conflict[], resolution: Resolution) => {
    setFound(found.filter((one) => !settled.includes(one)));
    const next = settled.reduce(
      (now, one) => resolve(now, one, resolution, rowAgain(table, stagedOf(now), one.key)),
      history,
    );
    setHistory(next);
    if (countOf(stagedOf(next)) === 0) setOpen(null);
    // The grid shows the row as it is now.
    void client.invalidateQueries({ queryKey: rowsKey(slug, name) });
  };
  const focusColumn = columns[selection.focus.column];
  const focusRow = all[selection.focus.row];

  return (
    <div className="table-view">
      <TableToolbar
        slug={slug}
        table={table}
        filters={address.filters}
        onFilters={address.setFilters}
        hidden={hidden}
        onHidden={setHidden}
        isEditable={isEditable}
        pending={pending}
        conflicts={conflicts.length}
        canUndo={canUndo(history)}
        canRedo={canRedo(history)}
        onCommand={command}
        onInsert={insert}
        onRefresh={() => void refreshAll().catch(toast.failed)}
        onImport={() => setOpen('import')}
        onExport={(format) => void exportTable(slug, name, address, format)}
        onAlter={isTable && isWritable ? () => setOpen('structure') : null}
        isPanelOpen={isPanelOpen}
        onPanel={() => setPanelOpen(!isPanelOpen)}
      />
      <div className="table-body">
        <div className="table-grid">
          {rows.error ? (
            <ErrorState error={rows.error} onRetry={() => void rows.refetch()} />
          ) : rows.isPending ? (
            <Skeleton lines={12} />
          ) : all.length === 0 ? (
            <EmptyState
              icon="grid"
              title={address.filters.length > 0 ? 'No row matches the filters' : 'No rows yet'}
            >
              {isEditable
                ? 'Insert a row, or paste into a new one.'
                : 'Rows appear here when they are written.'}
            </EmptyState>
          ) : (
            <Grid
              label={`Rows of ${name}`}
              source={source}
              selection={selection}
              onSelect={setSelected}
              onNearEnd={loadMore}
              onSort={address.toggleSort}
              onOpen={() => setPanelOpen(true)}
              onCopyCut={() => void copyWhole().catch(toast.failed)}
              {...(isEditable
                ? { onEdit: (edits: GridEdit[]) => notify(edit(edits), edits.length), onCommand: command }
                : {})}
            />
          )}
        </div>
        {isPanelOpen && focusColumn && all[selection.focus.row] ? (
          <ValuePanel
            key={`${all[selection.focus.row]?.key} ${focusColumn.name}`}
            slug={slug}
            table={table}
            column={focusColumn}
            rowKey={focusRow?.key ?? ''}
            value={source.valueAt(selection.focus.row, focusColumn.name)}
            readWhole={
              focusRow && source.isCut?.(selection.focus.row, focusColumn.name)
                ? async () => (await readWholeRow(place, focusRow))?.[focusColumn.name]
                : null
            }
            onChange={
              isEditable && !focusColumn.isReadOnly
                ? (text, seen) => edit([{ row: selection.focus.row, column: focusColumn, text, seen }])
                : null
            }
            columnValue={(column) => source.valueAt(selection.focus.row, column)}
            onPick={isEditable ? { canSet, set: setReference } : null}
            onClose={() => setPanelOpen(false)}
          />
        ) : null}
      </div>
      <footer className="table-foot">
        <span>
          {plural(rows.rows.length, 'row')} loaded{hasNextPage ? ', more below' : ''}
        </span>
        {isFetchingNextPage ? <span>Loading …</span> : null}
        {chosen.length > 1 ? <span>{plural(chosen.length, 'row')} selected</span> : null}
        {isEditable ? null : (
          <span>Read only: {isWritable ? whyReadOnly(table) : 'your role is viewer'}</span>
        )}
      </footer>
      {open === 'import' ? (
        <ImportDialog
          slug={slug}
          table={table}
          onClose={() => setOpen(null)}
          onImported={() => {
            setOpen(null);
            void refresh();
          }}
        />
      ) : null}
      {open === 'structure' ? (
        <StructureDialog slug={slug} table={table} onClose={() => setOpen(null)} />
      ) : null}
      {open === 'review' ? (
        <ReviewDialog
          slug={slug}
          table={table}
          staged={staged}
          conflicts={conflicts}
          onConflicts={setFound}
          onResolve={settle}
          onClose={() => setOpen(null)}
          onApplied={(count) => {
            setOpen(null);
            setHistory(emptyHistory);
            toast.done(`${plural(count, 'change')} applied.`);
            void refresh();
          }}
        />
      ) : null}
    </div>
  );
}

const whyReadOnly = ({ primary_key, kind }: Table) => (primary_key.length === 0 ? 'no primary key' : kind);

/** A single edit shows its problem in the cell, a paste as a message. */
function notify(problem: string | null, count: number): string | null {
  if (problem && count > 1) toast.failed(new Error(`Nothing was pasted. ${problem}`));
  return problem;
}

/** A copy gets new values for what PostgreSQL fills in itself. */
function copyOf(table: Table, values: Record<string, unknown>): Record<string, unknown> {
  const kept = table.columns.filter(
    ({ name, identity, generated, default: byDefault }) =>
      !identity && !generated && !(table.primary_key.includes(name) && byDefault),
  );
  return Object.fromEntries(kept.map(({ name }) => [name, values[name]]));
}
