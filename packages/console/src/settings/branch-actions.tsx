// What can be done with a branch: take the parent's present state, or give the parent this one.
import type { Project, PromotedResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api, path } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { Section } from '../ui/page.tsx';
import { toast } from '../ui/toast.tsx';

export function BranchActions({ project, parent }: { project: Project; parent: string }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [asked, setAsked] = useState<'reset' | 'promote' | null>(null);
  const { slug } = project;
  const resetting = useIdempotencyKey();
  const promoting = useIdempotencyKey();
  const reset = useMutation({
    mutationFn: () => resetting.once((options) => api.post(path`projects/${slug}/reset`, {}, options)),
    onSuccess: () => {
      setAsked(null);
      toast.done(`The branch has the present state of ${parent}.`);
      return client.invalidateQueries({ queryKey: ['project', slug] });
    },
  });
  const promote = useMutation({
    mutationFn: () =>
      promoting.once((options) => api.post<PromotedResponse>(path`projects/${slug}/promote`, {}, options)),
    onSuccess: () => {
      toast.done(`${parent} has the state of the branch.`);
      go(`/projects/${parent}/tables`);
      return client.invalidateQueries();
    },
  });
  return (
    <Section title="This is a branch" about={`Of the project ${parent}.`}>
      <div className="panel panel-pad row row-wrap">
        <span className="muted grow">
          Reset it to the present state of its parent, or promote it: the parent then has this state.
        </span>
        <Button onClick={() => setAsked('reset')}>Reset</Button>
        <Button onClick={() => setAsked('promote')}>Promote</Button>
      </div>
      {asked === 'reset' ? (
        <Confirm
          title={`Reset ${project.name}`}
          action="Reset"
          word={slug}
          isBusy={reset.isPending}
          error={reset.error}
          onConfirm={() => reset.mutate()}
          onClose={() => setAsked(null)}
        >
          The data of the branch is dropped and cannot be brought back. Its slug, keys and limit stay.
        </Confirm>
      ) : null}
      {asked === 'promote' ? (
        <Confirm
          title={`Promote ${project.name}`}
          action="Promote"
          word={parent}
          isBusy={promote.isPending}
          error={promote.error}
          onConfirm={() => promote.mutate()}
          onClose={() => setAsked(null)}
        >
          The keys and the connection string of {parent} then serve the data of this branch. The old data of{' '}
          {parent} is kept as a deleted project for 7 days.
        </Confirm>
      ) : null}
    </Section>
  );
}
