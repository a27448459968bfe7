// Wire types of moves: a project goes to another server.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { Job } from './jobs.ts';

export const MoveProject = Type.Object(
  {
    server: Type.String({
      minLength: 1,
      maxLength: 63,
      description: 'The name of the other server.',
      examples: ['db2'],
    }),
    mode: Type.Optional(
      Type.Enum(['auto', 'online', 'dump'], {
        default: 'auto',
        description:
          'online: by logical replication, with a short pause; refused where the project or the servers do not allow it. dump: by a dump, while requests wait. auto: online where possible, otherwise by a dump.',
      }),
    ),
    max_pause_ms: Type.Optional(
      Type.Integer({
        minimum: 100,
        maximum: 600_000,
        default: 20_000,
        description:
          'Requests wait at most this long. A move that would take longer is refused, or undone when the time is over.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type MoveProject = Static<typeof MoveProject>;

export const MoveResponse = success({
  job: Job,
  mode: Type.Enum(['online', 'dump'], {
    description:
      'How the project is moved, as far as is known. `result.mode` of the job tells how it was moved.',
  }),
  reason: Type.Optional(Type.String({ description: 'Why the project is moved by a dump.' })),
  expected_pause_ms: Type.Integer({
    description:
      'How long requests of the project will probably wait. An estimate from the size alone, not a limit (max_pause_ms is one). Online: 400 ms, which is the slowest write of 88 MB moved under 8 writers on two busy cores, and if there are large objects, unlogged tables or materialized views, 500 ms and 100 ms for each megabyte of them. By a dump: 500 ms and 100 ms for each megabyte that the project stores.',
  }),
});
export type MoveResponse = Static<typeof MoveResponse>;
