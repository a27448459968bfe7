import type { QueryResponse } from '@rowhouse/api';
import { lazy, Suspense, useEffect, useMemo, useState } from 'react';
import type { Format } from '../api/download.ts';
import { Grid } from '../grid/grid.tsx';
import { clampSelection, startSelection } from '../grid/selection.ts';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { ExportMenu } from '../ui/export-menu.tsx';
import { formatDuration, plural } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { firstChoice } from './chart-data.ts';
import { PlanTree } from './plan-tree.tsx';
import type { Chosen, Outcome } from './use-run.ts';

const Chart = lazy(() => import('./chart.tsx').then((module) => ({ default: module.Chart })));

type Props = {
  outcome: Outcome;
  onApply: (chosen: Chosen, maxAffected: number | null) => void;
  onExport: (chosen: Chosen, format: Format) => void;
  onDismiss: () => void;
};

export function Results({ outcome, onApply, onExport, onDismiss }: Props) {
  switch (outcome.kind) {
    case 'idle':
      return (
        <EmptyState icon="sql" title="Results appear here">
          Ctrl Enter runs the selection, or the statement at the cursor.
        </EmptyState>
      );
    case 'running':
      return <Running since={outcome.since} />;
    case 'cancelled':
      return (
        <EmptyState icon="stop" title="Cancelled">
          The statement was stopped, and PostgreSQL rolled it back.
        </EmptyState>
      );
    case 'failed':
      return (
        <div className="sql-message">
          <ErrorNote error={outcome.error} />
          <Code
            label="The statement that ran"
            text={marked(outcome.chosen.sql, outcome.error.sql?.position)}
          />
        </div>
      );
    case 'plan':
      return <PlanTree plan={outcome.plan} hasTimes={outcome.hasTimes} />;
    case 'preview':
      return <Preview outcome={outcome} onApply={onApply} onDismiss={onDismiss} />;
    case 'rows':
      return (
        <Rows
          result={outcome.result}
          isReading={outcome.isReading}
          onExport={(format) => onExport(outcome.chosen, format)}
        />
      );
  }
}

function Running({ since }: { since: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 100);
    return () => clearInterval(timer);
  }, []);
  const ms = now - since;
  return (
    <p className="sql-message muted" role="status">
      {ms > 300 ? `Running for ${formatDuration(ms)} …` : 'Running …'}
    </p>
  );
}

/** The number is the true one of a run that was rolled back. Applying sends it as the limit. */
function Preview({
  outcome,
  onApply,
  onDismiss,
}: Omit<Props, 'onExport'> & { outcome: Extract<Outcome, { kind: 'preview' }> }) {
  const { chosen, result, problem, estimate } = outcome;
  const isCounted = result !== null && /^(UPDATE|DELETE|MERGE|INSERT)/.test(result.command);
  return (
    <div className="sql-preview">
      <div className="sql-preview-head">
        <Icon name="alert" />
        <p className="grow">
          {result && isCounted ? (
            <>
              <b>
                {result.command} would affect {plural(result.affected, 'row')}.
              </b>{' '}
              It ran and was rolled back. If more rows are affected when it is applied, nothing changes.
            </>
          ) : result ? (
            <>
              <b>{result.command} would succeed.</b> It ran and was rolled back.
            </>
          ) : estimate !== null ? (
            <>
              <b>PostgreSQL estimates that about {plural(estimate, 'row')} would be affected.</b> There is no
              true preview: {problem.message} When it is applied, nothing limits the number of rows.
            </>
          ) : (
            <>
              <b>There is no preview of this statement.</b> {problem.message}
            </>
          )}
        </p>
        <span className="row">
          <Button size="small" onClick={onDismiss}>
            Cancel
          </Button>
          <Button
            size="small"
            kind="danger"
            onClick={() => onApply(chosen, isCounted ? result.affected : null)}
          >
            {result && isCounted ? `Apply to ${plural(result.affected, 'row')}` : 'Apply'}
          </Button>
        </span>
      </div>
      {result && result.columns.length > 0 ? (
        <Rows result={result} />
      ) : (
        <Code label="Statement" text={chosen.sql} />
      )}
    </div>
  );
}

type RowsProps = {
  result: QueryResponse;
  isReading?: boolean;
  /** Missing: the rows are of a statement that must not run again. */
  onExport?: (format: Format) => void;
};

function Rows({ result, isReading = false, onExport }: RowsProps) {
  const [selected, setSelected] = useState(startSelection);
  const [isChart, setChart] = useState(false);
  const canDraw = !isReading && result.rows.length > 0 && firstChoice(result) !== null;
  const source = useMemo(
    () => ({
      columns: result.columns.map((name, index) => ({ name, type: result.types[index] ?? '' })),
      rowCount: result.rows.length,
      valueAt: (row: number, column: string) => result.rows[row]?.[column] ?? null,
    }),
    [result],
  );
  const selection = clampSelection(selected, { rows: source.rowCount, columns: source.columns.length });
  return (
    <div className="sql-rows">
      <div className="sql-rows-grid">
        {isChart && canDraw ? (
          <Suspense fallback={<Skeleton />}>
            <Chart key={result.columns.join('\n')} result={result} />
          </Suspense>
        ) : source.rowCount > 0 ? (
          <Grid label="Result" source={source} selection={selection} onSelect={setSelected} />
        ) : (
          <EmptyState icon="check" title={result.columns.length > 0 ? 'No rows' : `${result.command} done`}>
            {result.columns.length > 0
              ? 'The statement ran and returned none.'
              : plural(result.affected, 'row affected', 'rows affected')}
          </EmptyState>
        )}
      </div>
      <footer className="table-foot">
        <span>{result.command}</span>
        <span>
          {plural(result.row_count, 'row')}
          {result.truncated ? ' shown, there are more' : ''}
        </span>
        <span>{isReading ? 'Reading …' : formatDuration(result.duration_ms)}</span>
        <span className="grow" />
        {canDraw ? (
          <Button
            size="small"
            kind="ghost"
            icon={<Icon name="usage" />}
            aria-pressed={isChart}
            onClick={() => setChart(!isChart)}
          >
            Chart
          </Button>
        ) : null}
        {onExport && !isReading && result.command === 'SELECT' ? <ExportMenu onExport={onExport} /> : null}
      </footer>
    </div>
  );
}

/** The statement with a mark at PostgreSQL's position, which counts characters from 1. */
function marked(sql: string, position: string | undefined): string {
  const at = Number(position) - 1;
  if (!Number.isInteger(at) || at < 0) return sql;
  const letters = [...sql];
  return `${letters.slice(0, at).join('')}▸${letters.slice(at).join('')}`;
}
