// Wire types of jobs: long work that a request starts and does not wait for.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const time = { format: 'date-time' };

export const jobKinds = [
  'import',
  'branch',
  'reset',
  'restore',
  'move',
  'drain',
  'backup',
  'verify',
  'prune',
  'drill',
] as const;
export type JobKind = (typeof jobKinds)[number];

const jobStatuses = ['running', 'done', 'done_with_losses', 'failed', 'cancelled'] as const;
export type JobStatus = (typeof jobStatuses)[number];

export const Job = Type.Object(
  {
    id: Type.String({ examples: ['4k9x2m7q1z8w3v5t'] }),
    kind: Type.Enum([...jobKinds]),
    project: Type.Union([Type.String(), Type.Null()], {
      description: 'The slug of the project that the job fills or works on. null: none, or it is gone.',
    }),
    status: Type.Enum([...jobStatuses], {
      description:
        '`done_with_losses`: the job is done, and the project is ready, but not everything was taken over. `result.lost_count` is above 0, and `result.skipped` begins with the entries that were lost. A job that failed or was cancelled has left nothing behind.',
    }),
    progress: Type.Number({ minimum: 0, maximum: 1, description: 'An estimate. It never decreases.' }),
    started_at: Type.String(time),
    ended_at: Type.Union([Type.String(time), Type.Null()]),
    details: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
      description:
        'What the job does at present, or did last. Of a move: `mode` (`online` or `dump`), `reason` (why by a dump) and `phase` (`copying tables`, `copying rows`, `catching up` or `switching`).',
    }),
    error: Type.Union(
      [
        Type.Object(
          {
            code: Type.String(),
            message: Type.String(),
            hint: Type.Optional(Type.String()),
            details: Type.Optional(Type.Unknown()),
          },
          { additionalProperties: false },
        ),
        Type.Null(),
      ],
      { description: 'Why the job failed or was cancelled.' },
    ),
    result: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
      description: 'What the job did. Its fields depend on the kind.',
    }),
  },
  { additionalProperties: false },
);
export type Job = Static<typeof Job>;

export const JobResponse = success({ job: Job });
export type JobResponse = Static<typeof JobResponse>;

export const JobsResponse = success({ jobs: Type.Array(Job, { description: 'Newest first.' }) });
export type JobsResponse = Static<typeof JobsResponse>;
