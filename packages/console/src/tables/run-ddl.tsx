import { useMutation, useQueryClient } from '@tanstack/react-query';
import { api, path } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { toast } from '../ui/toast.tsx';

type Props = {
  slug: string;
  statements: readonly string[];
  action: string;
  /** Why it cannot run yet. */
  problem: string | null;
  isDanger?: boolean;
  onDone: () => Promise<void> | void;
  onClose: () => void;
};

/** The DDL of a form, always shown before it runs, in one transaction. */
export function RunDdl({ slug, statements, action, problem, isDanger = false, onDone, onClose }: Props) {
  const client = useQueryClient();
  const run = useMutation({
    mutationFn: () =>
      api.post(path`projects/${slug}/batch`, { statements: statements.map((query) => ({ query })) }),
    onSuccess: async () => {
      toast.done('Done.');
      await client.invalidateQueries({ queryKey: ['project', slug] });
      await onDone();
    },
  });
  return (
    <>
      {run.error ? <ErrorNote error={run.error} /> : null}
      {problem ? (
        <p className="faint">{problem}</p>
      ) : (
        <Code label="SQL" text={statements.map((statement) => `${statement};`).join('\n')} />
      )}
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          kind={isDanger ? 'danger' : 'primary'}
          isBusy={run.isPending}
          disabled={problem !== null}
          onClick={() => run.mutate()}
        >
          {action}
        </Button>
      </DialogActions>
    </>
  );
}
