import { useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { Format } from '../api/download.ts';
import type { Table } from '../api/queries.ts';
import type { GridCommand } from '../grid/grid.tsx';
import { Button, IconButton } from '../ui/button.tsx';
import { ExportMenu } from '../ui/export-menu.tsx';
import { CheckField } from '../ui/field.tsx';
import { plural } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { Popover } from '../ui/menu.tsx';
import { FilterBar } from './filter-bar.tsx';
import type { FilterGroup } from './filters.ts';
import { tableName } from './table-name.ts';

type Props = {
  slug: string;
  table: Table;
  filters: readonly FilterGroup[];
  onFilters: (filters: FilterGroup[]) => void;
  hidden: ReadonlySet<string>;
  onHidden: (hidden: ReadonlySet<string>) => void;
  isEditable: boolean;
  pending: number;
  conflicts: number;
  canUndo: boolean;
  canRedo: boolean;
  onCommand: (command: GridCommand) => void;
  onInsert: () => void;
  onRefresh: () => void;
  onImport: () => void;
  onExport: (format: Format) => void;
  onAlter: (() => void) | null;
  isPanelOpen: boolean;
  onPanel: () => void;
};

export function TableToolbar(props: Props) {
  const { slug, table, filters, onFilters, isEditable, onCommand, onRefresh, isPanelOpen, onPanel } = props;
  const client = useQueryClient();
  return (
    <>
      <header className="table-bar">
        <Link href={`/projects/${slug}/tables`} className="table-back">
          Tables
        </Link>
        <h1 className="table-title truncate">{tableName(table)}</h1>
        <span className="grow" />
        {isEditable ? (
          <>
            <IconButton
              label="Undo"
              size="small"
              icon={<Icon name="undo" />}
              disabled={!props.canUndo}
              onClick={() => onCommand('undo')}
            />
            <IconButton
              label="Duplicate the selected rows"
              size="small"
              icon={<Icon name="duplicate" />}
              onClick={() => onCommand('duplicate')}
            />
            <IconButton
              label="Delete the selected rows"
              size="small"
              icon={<Icon name="trash" />}
              onClick={() => onCommand('delete-rows')}
            />
            <Button size="small" kind="ghost" icon={<Icon name="upload" />} onClick={props.onImport}>
              Import
            </Button>
            <Button size="small" icon={<Icon name="plus" />} onClick={props.onInsert}>
              Insert row
            </Button>
          </>
        ) : null}
      </header>
      <div className="table-bar table-bar-second">
        <FilterBar columns={table.columns} filters={filters} onChange={onFilters} />
        <span className="grow" />
        {props.onAlter ? (
          <Button size="small" kind="ghost" icon={<Icon name="settings" />} onClick={props.onAlter}>
            Structure
          </Button>
        ) : null}
        <ExportMenu onExport={props.onExport} />
        <ColumnChooser table={table} hidden={props.hidden} onHidden={props.onHidden} />
        <IconButton
          label="Refresh"
          size="small"
          icon={<Icon name="refresh" />}
          onClick={() => {
            void client.invalidateQueries({ queryKey: ['project', slug, 'schema'] });
            onRefresh();
          }}
        />
        <IconButton
          label="Show the whole value"
          size="small"
          aria-pressed={isPanelOpen}
          icon={<Icon name="panel" />}
          onClick={onPanel}
        />
      </div>
      {props.pending > 0 ? <PendingBar {...props} /> : null}
    </>
  );
}

function PendingBar({ pending, conflicts, onCommand }: Pick<Props, 'pending' | 'conflicts' | 'onCommand'>) {
  return (
    <div className="pending" role="status">
      <span className="grow">
        {plural(pending, 'unsaved change')}
        {conflicts > 0 ? <b>, {plural(conflicts, 'conflict')} with changes of somebody else</b> : null}
      </span>
      <Button size="small" kind="ghost" onClick={() => onCommand('discard')}>
        Discard
      </Button>
      <Button size="small" kind="primary" onClick={() => onCommand('review')}>
        Review and apply
      </Button>
    </div>
  );
}

function ColumnChooser({ table, hidden, onHidden }: Pick<Props, 'table' | 'hidden' | 'onHidden'>) {
  const toggle = (name: string, isShown: boolean) => {
    const next = new Set(hidden);
    if (isShown) next.delete(name);
    else next.add(name);
    if (next.size < table.columns.length) onHidden(next);
  };
  return (
    <Popover
      label="Columns"
      align="end"
      trigger={(props) => (
        <button type="button" className="button button-ghost button-small" {...props}>
          <Icon name="columns" />
          <span className="button-label">{hidden.size > 0 ? `${hidden.size} hidden` : 'Columns'}</span>
        </button>
      )}
    >
      {() => (
        <div className="stack-s">
          {table.columns.map(({ name, type }) => (
            <CheckField
              key={name}
              label={name}
              help={type}
              checked={!hidden.has(name)}
              onChange={(isShown) => toggle(name, isShown)}
            />
          ))}
        </div>
      )}
    </Popover>
  );
}
