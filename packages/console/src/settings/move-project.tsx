// Moves a project to another PostgreSQL server of the fleet. With one server there is nothing to choose.
import type { MoveResponse, ServersResponse } from '@rowhouse/api';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api, path } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { SelectField } from '../ui/field.tsx';
import { formatDuration } from '../ui/format.ts';
import { JobProgress } from '../ui/job-progress.tsx';
import { Section } from '../ui/page.tsx';

export function MoveProject({ slug }: { slug: string }) {
  const [server, setServer] = useState('');
  const { data } = useQuery({
    queryKey: ['servers'],
    queryFn: ({ signal }) => api.get<ServersResponse>('servers', undefined, signal),
  });
  const { once } = useIdempotencyKey();
  const move = useMutation({
    mutationFn: () =>
      once((options) => api.post<MoveResponse>(path`projects/${slug}/move`, { server }, options)),
  });
  const servers = data?.servers.filter(({ state }) => state === 'ready') ?? [];
  if (servers.length < 2) return null;
  const options = [{ value: '', label: 'Choose …' }, ...servers.map(({ name }) => name)];
  return (
    <Section
      title="Move"
      about="To another PostgreSQL server. Requests wait while the project moves, and see no error."
    >
      <div className="panel panel-pad stack">
        {move.error ? <ErrorNote error={move.error} /> : null}
        <div className="row row-wrap">
          <div className="grow">
            <SelectField label="Server" value={server} onChange={setServer} options={options} />
          </div>
          <Button isBusy={move.isPending} disabled={server === ''} onClick={() => move.mutate()}>
            Move
          </Button>
        </div>
        {move.data ? (
          <>
            <p className="muted">
              Requests are expected to wait {formatDuration(move.data.expected_pause_ms)}.
            </p>
            <JobProgress job={move.data.job} queryKeys={[['project', slug], ['servers']]} />
          </>
        ) : null}
      </div>
    </Section>
  );
}
