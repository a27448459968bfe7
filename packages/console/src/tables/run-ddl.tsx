import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { schemaQuery, tablesQuery } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { CancelButton, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { CheckField } from '../ui/field.tsx';
import { toast } from '../ui/toast.tsx';

type Props = {
  slug: string;
  statements: readonly string[];
  action: string;
  /** Why it cannot run yet. */
  problem: string | null;
  /** What the person must agree to first, with the name of the object. */
  confirm?: string | null;
  /** What is true then. null: `onDone` says it. */
  done: string | null;
  onDone: () => Promise<void> | void;
};

/** The DDL of a form, always shown before it runs, in one transaction. */
export function RunDdl({ slug, statements, action, problem, confirm = null, done, onDone }: Props) {
  const client = useQueryClient();
  const text = statements.map((statement) => `${statement};`).join('\n');
  // The agreement is to these statements: others have to be agreed to again.
  const [agreedTo, setAgreedTo] = useState<string | null>(null);
  const isAgreed = confirm === null || agreedTo === text;
  const { once } = useIdempotencyKey();
  const run = useMutation({
    mutationFn: () =>
      once((options) =>
        api.post(
          path`projects/${slug}/batch`,
          { statements: statements.map((query) => ({ query })) },
          options,
        ),
      ),
    onSuccess: async () => {
      if (done !== null) toast.done(done);
      // Rows and figures are read again, too. The form does not wait for them.
      void client.invalidateQueries({ queryKey: ['project', slug] });
      await Promise.all(
        [schemaQuery(slug), tablesQuery(slug)].map(({ queryKey }) =>
          client.invalidateQueries({ queryKey }, { cancelRefetch: false }),
        ),
      );
      await onDone();
    },
  });
  return (
    <>
      {run.error ? <ErrorNote error={run.error} /> : null}
      {problem ? (
        <p className="faint">{problem}</p>
      ) : (
        <>
          <Code label="SQL" text={text} />
          {confirm === null ? null : (
            <CheckField
              label={confirm}
              checked={isAgreed}
              onChange={(isOn) => setAgreedTo(isOn ? text : null)}
            />
          )}
        </>
      )}
      <DialogActions>
        <CancelButton />
        <Button
          kind={confirm === null ? 'primary' : 'danger'}
          isBusy={run.isPending}
          disabled={problem !== null || !isAgreed}
          onClick={() => run.mutate()}
        >
          {action}
        </Button>
      </DialogActions>
    </>
  );
}
