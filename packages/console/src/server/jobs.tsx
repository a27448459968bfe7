// Jobs that are running or ran lately, with their progress.
import type { Job } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { jobsQuery } from '../api/queries.ts';
import { Badge } from '../ui/badge.tsx';
import { Bar } from '../ui/bar.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { formatAge } from '../ui/format.ts';
import { jobTones, jobWords } from '../ui/job-progress.tsx';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { nameOfJob, StopJob } from '../ui/stop-job.tsx';

const shown = 20;
const pollMs = 3_000;

export function Jobs() {
  const { data: jobs, error } = useQuery({ ...jobsQuery(), refetchInterval: pollMs });
  return (
    <Section title="Jobs">
      {error ? <ErrorNote error={error} /> : null}
      {!jobs && !error ? <Skeleton lines={2} /> : null}
      {jobs?.length === 0 ? <p className="faint">No job is running, and none ran lately.</p> : null}
      {jobs && jobs.length > 0 ? (
        <div className="panel">
          <List label="Jobs" columns={columns} items={jobs.slice(0, shown)} keyOf={({ id }) => id} />
        </div>
      ) : null}
    </Section>
  );
}

const columns = [
  { title: 'Job', cell: nameOfJob },
  { title: 'Status', cell: ({ status }: Job) => <Badge tone={jobTones[status]}>{jobWords[status]}</Badge> },
  {
    title: 'Progress',
    cell: ({ progress, error, kind }: Job) =>
      error ? (
        error.message
      ) : (
        <span className="bar-cell">
          <Bar value={progress} max={1} label={`Progress of ${kind}`} kind="progress" />
        </span>
      ),
  },
  {
    title: 'Started',
    align: 'end' as const,
    cell: ({ started_at }: Job) => <span className="faint">{formatAge(started_at)}</span>,
  },
  {
    title: 'Actions',
    isTitleHidden: true,
    align: 'end' as const,
    cell: (job: Job) => <StopJob job={job} />,
  },
];
