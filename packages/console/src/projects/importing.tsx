// The key of a project that a dump fills, the progress, and at the end what was taken over and what was not.
import type { ImportResponse } from '@rowhouse/api';
import { useLocation } from 'wouter';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { plural } from '../ui/format.ts';
import { JobProgress, useJob } from '../ui/job-progress.tsx';
import { leaveFreely } from '../ui/leaving.ts';
import { List } from '../ui/list.tsx';
import { type ImportReport, readReport, type Skipped } from './import-report.ts';
import { ProjectKey } from './project-fields.tsx';

export function Importing({ started, onClose }: { started: ImportResponse; onClose: () => void }) {
  const [, go] = useLocation();
  const { project, api_key: apiKey } = started;
  const { job } = useJob(started.job);
  const isDone = job.status === 'done';
  const showsKey = isDone || job.status === 'running';
  return (
    <Dialog
      title={isDone ? `${project.name} is imported` : `Import of ${project.name}`}
      kind="wide"
      onClose={onClose}
      closesByButton={showsKey}
    >
      <div className="stack">
        {showsKey ? <ProjectKey apiKey={apiKey} /> : null}
        {job.status === 'running' ? (
          <p className="muted">
            A job fills the project. It goes on if you close this page: the Server screen lists it.
          </p>
        ) : null}
        <JobProgress job={started.job} queryKeys={[['projects'], ['project', project.slug]]} />
        {isDone ? <Report report={readReport(job.result)} /> : null}
        <DialogActions>
          <Button onClick={onClose}>Back to projects</Button>
          {isDone ? (
            <Button
              kind="primary"
              onClick={() => {
                leaveFreely(() => go(`/projects/${project.slug}/tables`));
                onClose();
              }}
            >
              Open the project
            </Button>
          ) : null}
        </DialogActions>
      </div>
    </Dialog>
  );
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
      {skippedCount > skipped.length ? (
        <p className="faint">The report lists the first {skipped.length}.</p>
      ) : null}
    </>
  );
}

const columns = [
  { title: 'Entry', cell: ({ entry }: Skipped) => <span className="mono">{entry}</span> },
  { title: 'Reason', cell: ({ reason }: Skipped) => reason },
];
