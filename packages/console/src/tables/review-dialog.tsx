// What will run, before it runs. The key is made when the dialog opens: a repeated click or a lost answer applies nothing
// twice. Another client's change to one of the rows rolls everything back.
import { useMutation } from '@tanstack/react-query';
import { useMemo } from 'react';
import { ApiError } from '../api/error.ts';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import type { Table } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import type { Staged } from '../grid/staged.ts';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { plural } from '../ui/format.ts';
import { changeStatements, readableSql, type Statement } from './change-sql.ts';

type Props = {
  slug: string;
  table: Table;
  staged: Staged;
  onClose: () => void;
  onApplied: (count: number) => void;
};

/** The limit of a batch. */
const statementsMax = 1000;
const shownMax = 100;

export function ReviewDialog({ slug, table, staged, onClose, onApplied }: Props) {
  const statements = useMemo(() => changeStatements(table, staged), [table, staged]);
  const { once } = useIdempotencyKey();
  const apply = useMutation({
    mutationFn: () =>
      once((options) => api.post(path`projects/${slug}/batch`, { statements, numbers: 'string' }, options)),
    onSuccess: () => onApplied(statements.length),
  });
  const { deleted, changed, inserted } = staged;
  const isTooMany = statements.length > statementsMax;
  const text = statements.slice(0, shownMax).map((statement) => `${readableSql(statement)};`);
  if (statements.length > shownMax)
    text.push(`-- and ${plural(statements.length - shownMax, 'more statement')}`);
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
        {apply.error ? (
          <>
            <ErrorNote error={apply.error} />
            <FailedStatement error={apply.error} statements={statements} />
          </>
        ) : null}
        {isTooMany ? (
          <p className="note note-warn">At most {plural(statementsMax, 'change')} can be applied at once.</p>
        ) : null}
        <Code text={text.join('\n')} label="SQL" />
        <DialogActions>
          <Button onClick={onClose}>Go on editing</Button>
          <Button kind="primary" isBusy={apply.isPending} disabled={isTooMany} onClick={() => apply.mutate()}>
            Apply {plural(statements.length, 'change')}
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

function FailedStatement({ error, statements }: { error: Error; statements: readonly Statement[] }) {
  const details = error instanceof ApiError ? error.details : null;
  if (typeof details !== 'object' || details === null || !('statement' in details)) return null;
  const statement = statements[Number(details.statement)];
  return statement ? <Code label="The change that failed" text={readableSql(statement)} /> : null;
}
