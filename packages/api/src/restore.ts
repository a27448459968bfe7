// Wire types of a restore to a point in time.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { Job } from './jobs.ts';
import { Project } from './projects.ts';

export const RestoreProject = Type.Object(
  {
    to: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description:
          'The time of the state to restore, with a time zone. Exact to the millisecond. Without it, a deleted project is restored as it was when it was deleted.',
        examples: ['2026-11-16T10:00:00Z'],
      }),
    ),
    snapshot: Type.Optional(
      Type.String({ maxLength: 200, description: 'The name of a snapshot, instead of "to".' }),
    ),
    into: Type.Optional(
      Type.Enum(['new', 'in_place'], {
        default: 'new',
        description:
          'new: into a new project, beside this one. in_place: the restored state replaces this project, and the present state is kept as a deleted project.',
      }),
    ),
    server: Type.Optional(
      Type.String({
        maxLength: 100,
        description:
          'With "new": the name of the server for the new project. Without it, that of this project; if that server does not answer, the service chooses another one.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type RestoreProject = {
  to?: string;
  snapshot?: string;
  into?: 'new' | 'in_place';
  server?: string;
};

export const RestoringResponse = success({
  project: Project,
  api_key: Type.Optional(
    Type.String({
      description: 'The key of a new project. It is shown only once. With in_place, keys stay as they are.',
    }),
  ),
  job: Job,
  estimated_seconds: Type.Integer({ description: 'How long the restore is expected to take.' }),
});
export type RestoringResponse = Static<typeof RestoringResponse>;
