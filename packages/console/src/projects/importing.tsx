// The key of a project that a dump fills, the progress, and at the end what was taken over and what was not.
import type { ImportResponse, Job } from '@rowhouse/api';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { plural } from '../ui/format.ts';
import { isDone, JobProgress, maxListed, useJob } from '../ui/job-progress.tsx';
import { List } from '../ui/list.tsx';
import { type ImportReport, readReport, type Skipped } from './import-report.ts';
import { ProjectKey } from './project-fields.tsx';
import { useOpenProject } from './use-open-project.ts';

export function Importing({ started, onClose }: { started: ImportResponse; onClose: () => void }) {
  const { project, api_key: apiKey } = started;
  const open = useOpenProject(project.slug, onClose);
  const { job } = useJob(started.job);
  const isReady = isDone(job.status);
  const showsKey = isReady || job.status === 'running';
  return (
    <Dialog title={titleOf(project.name, job.status)} kind="wide" onClose={onClose} closesByButton={showsKey}>
      <div className="stack">
        {showsKey ? <ProjectKey apiKey={apiKey} /> : null}
        {job.status === 'running' ? (
          <p className="muted">
            A job fills the project. It goes on if you close this page: the Server screen lists it.
          </p>
        ) : null}
        <JobProgress job={started.job} queryKeys={[['projects'], ['project', project.slug]]} />
        {isReady ? <Report report={readReport(job.result)} /> : null}
        <DialogActions>
          <Button onClick={onClose}>Back to projects</Button>
          {isReady ? (
            <Button kind="primary" onClick={open}>
              Open the project
            </Button>
          ) : null}
        </DialogActions>
      </div>
    </Dialog>
  );
}

function titleOf(name: string, status: Job['status']): string {
  if (status === 'done_with_losses') return `${name} is imported, but not all of it`;
  return status === 'done' ? `${name} is imported` : `Import of ${name}`;
}

function Report({ report }: { report: ImportReport }) {
  const { tables, rows, users, skipped, skippedCount } = report;
  return (
    <>
      <p>
        Imported {plural(tables, 'table')}, {plural(rows, 'row')} and {plural(users, 'user')}.{' '}
        {skippedCount === 0
          ? 'Nothing was left out.'
          : `${plural(skippedCount, 'entry', 'entries')} left out:`}
      </p>
      {skipped.length > 0 ? (
        <div className="panel">
          <List label="Left out" columns={columns} items={skipped} keyOf={({ key }) => key} />
        </div>
      ) : null}
      {skipped.length >= maxListed && skippedCount > skipped.length ? (
        <p className="faint">The report lists the first {skipped.length}.</p>
      ) : null}
    </>
  );
}

const columns = [
  { title: 'Entry', cell: ({ entry }: Skipped) => <span className="mono">{entry}</span> },
  { title: 'Lost', cell: ({ lost }: Skipped) => (lost ? <Badge tone="warn">lost</Badge> : null) },
  { title: 'Reason', cell: ({ reason }: Skipped) => reason },
];
