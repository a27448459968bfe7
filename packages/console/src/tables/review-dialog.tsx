// What will run, before it runs. The key is made when the dialog opens: a repeated click or a lost answer applies nothing
// twice. Another client's change to one of the rows rolls everything back.
import { useMutation } from '@tanstack/react-query';
import { useMemo } from 'react';
import { ApiError } from '../api/error.ts';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import type { Table } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import type { Resolution, Staged } from '../grid/staged.ts';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { plural } from '../ui/format.ts';
import { changeStatements, readableStatements } from './change-sql.ts';
import { ConflictList } from './conflict-list.tsx';
import { type Conflict, findConflicts } from './conflicts.ts';

type Props = {
  slug: string;
  table: Table;
  staged: Staged;
  onClose: () => void;
  /** Found so far, in the rows that are still staged. */
  conflicts: readonly Conflict[];
  onConflicts: (conflicts: readonly Conflict[]) => void;
  onResolve: (conflicts: readonly Conflict[], resolution: Resolution) => void;
  onApplied: (count: number) => void;
};

/** The limit of a batch. */
const statementsMax = 1000;
const shownMax = 100;

export function ReviewDialog(props: Props) {
  const { slug, table, staged, conflicts, onConflicts, onResolve, onClose, onApplied } = props;
  const statements = useMemo(() => changeStatements(table, staged), [table, staged]);
  const shown = useMemo(() => readableStatements(table, staged), [table, staged]);
  const { once } = useIdempotencyKey();
  const search = useMutation({
    mutationFn: (failedAt: number) => findConflicts({ slug, table }, staged, failedAt),
    onSuccess: (found) => {
      onConflicts(found);
      apply.reset();
    },
  });
  const apply = useMutation({
    mutationFn: () =>
      once((options) => api.post(path`projects/${slug}/batch`, { statements, numbers: 'string' }, options)),
    onSuccess: () => onApplied(statements.length),
    // Not awaited by the button: the conflicts replace the error when they are known.
    onError: (error) => {
      const failedAt = unchangedAt(error);
      if (failedAt !== null) search.mutate(failedAt);
    },
  });
  const { deleted, changed, inserted } = staged;
  const isTooMany = statements.length > statementsMax;
  const text = shown.slice(0, shownMax).map((statement) => `${statement};`);
  if (shown.length > shownMax) text.push(`-- and ${plural(shown.length - shownMax, 'more statement')}`);
  return (
    <Dialog title="Review the changes" kind="wide" onClose={onClose}>
      <div className="stack">
        <p className="muted">
          {[
            inserted.size > 0 ? `${plural(inserted.size, 'row')} to insert` : '',
            changed.size > 0 ? `${plural(changed.size, 'row')} to update` : '',
            deleted.size > 0 ? `${plural(deleted.size, 'row')} to delete` : '',
          ]
            .filter(Boolean)
            .join(', ')}
          . All of it runs as one transaction, once. If a row was changed meanwhile, nothing is applied.
        </p>
        {conflicts.length > 0 ? (
          <ConflictList table={table} staged={staged} conflicts={conflicts} onResolve={onResolve} />
        ) : null}
        {search.error ? <ErrorNote error={search.error} /> : null}
        {apply.error ? (
          <>
            <ErrorNote error={apply.error} />
            <FailedStatement error={apply.error} statements={shown} />
          </>
        ) : null}
        {isTooMany ? (
          <p className="note note-warn">At most {plural(statementsMax, 'change')} can be applied at once.</p>
        ) : null}
        <Code text={text.join('\n')} label="SQL" />
        <DialogActions>
          <Button onClick={onClose}>Go on editing</Button>
          <Button
            kind="primary"
            isBusy={apply.isPending || search.isPending}
            disabled={isTooMany || conflicts.length > 0 || statements.length === 0}
            onClick={() => apply.mutate()}
          >
            Apply {plural(statements.length, 'change')}
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

/** The index of the statement that did not change exactly one row. */
function unchangedAt(error: Error): number | null {
  const details = error instanceof ApiError ? error.details : null;
  if (typeof details !== 'object' || details === null) return null;
  return 'expect_affected' in details && 'statement' in details ? Number(details.statement) : null;
}

function FailedStatement({ error, statements }: { error: Error; statements: readonly string[] }) {
  const details = error instanceof ApiError ? error.details : null;
  if (typeof details !== 'object' || details === null || !('statement' in details)) return null;
  const statement = statements[Number(details.statement)];
  return statement ? <Code label="The change that failed" text={`${statement};`} /> : null;
}
