// Backups: what can be restored, and when that was last proven.
import type { BackupsResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { ApiError } from '../api/error.ts';
import { api } from '../api/request.ts';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatAge, plural } from '../ui/format.ts';
import { Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { BackupActions } from './backup-actions.tsx';

export function Backups() {
  const { data, error } = useQuery({
    queryKey: ['backups'],
    queryFn: ({ signal }) => api.get<BackupsResponse>('backups', undefined, signal),
  });
  const isOff = error instanceof ApiError && error.code === 'backups_off';
  return (
    <Section title="Backups">
      {isOff ? (
        <p className="note note-warn">
          {error.message} {error.hint}
        </p>
      ) : null}
      {error && !isOff ? <ErrorNote error={error} /> : null}
      {!data && !error ? <Skeleton lines={4} /> : null}
      {data ? (
        <div className="panel panel-pad stack">
          {data.is_on_data_disk ? (
            <p className="note note-warn">
              The backups are on the disk of the data. If it is lost, so are they. Set ROWHOUSE_BACKUP_URL.
            </p>
          ) : null}
          {data.damaged.length > 0 ? (
            <p className="note note-bad">{plural(data.damaged.length, 'backup')} cannot be read.</p>
          ) : null}
          {data.failing_drills > 0 ? (
            <p className="note note-bad">
              The last restore drill of {plural(data.failing_drills, 'project')} failed. The log of the
              service tells why.
            </p>
          ) : null}
          {data.servers.map(({ name, problem }) =>
            problem ? (
              <p key={name} className="note note-warn">
                {name} is not backed up now: {problem}
              </p>
            ) : null,
          )}
          <dl className="facts">
            <dt>Storage</dt>
            <dd className="mono">{data.storage}</dd>
            <dt>Backups</dt>
            <dd>{plural(data.backups.length, 'backup')}</dd>
            <dt>Can be restored</dt>
            <dd>
              {data.oldest_restorable
                ? `every moment since ${formatAge(data.oldest_restorable)}`
                : 'nothing yet'}
            </dd>
            <dt>Not stored yet</dt>
            <dd>{data.lag_seconds === null ? 'unknown' : `${Math.round(data.lag_seconds)} s of changes`}</dd>
            <dt>Last verified restore</dt>
            <dd>{data.restore_verified_at ? formatAge(data.restore_verified_at) : 'never'}</dd>
            <dt>All backups read back</dt>
            <dd>{data.last_verified_at ? formatAge(data.last_verified_at) : 'never'}</dd>
          </dl>
          <BackupActions />
        </div>
      ) : null}
    </Section>
  );
}
