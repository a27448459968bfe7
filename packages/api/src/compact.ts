// Wire types of compaction, which returns unused space to the disk.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const time = { format: 'date-time' };

export const Compaction = Type.Object(
  {
    status: Type.Enum(['running', 'done', 'failed', 'stopped'], {
      description:
        'stopped: the service was stopped, or the compaction took too long. Start it again to continue.',
    }),
    started_at: Type.String(time),
    finished_at: Type.Union([Type.String(time), Type.Null()]),
    tables_total: Type.Integer(),
    tables_done: Type.Integer(),
    current: Type.Union([Type.String(), Type.Null()], {
      description: 'The table that is being processed, quoted as in SQL.',
    }),
    size_before_mb: Type.Number(),
    size_mb: Type.Number(),
    freed_mb: Type.Number(),
    skipped: Type.Array(
      Type.Object(
        {
          table: Type.String(),
          reason: Type.String({
            description:
              'locked, gone, no_room_in_limit, no_room_on_disk, too_slow, or an error message of PostgreSQL. The table is unchanged or only vacuumed.',
          }),
        },
        { additionalProperties: false },
      ),
      { description: 'The first 100 tables that were skipped.' },
    ),
    skipped_count: Type.Integer({ description: 'The number of all skipped tables.' }),
    error: Type.Union([Type.String(), Type.Null()]),
  },
  { additionalProperties: false },
);
export type Compaction = Static<typeof Compaction>;

export const CompactionResponse = success({ compaction: Compaction });
export const LastCompactionResponse = success({ compaction: Type.Union([Compaction, Type.Null()]) });
export type CompactionResponse = Static<typeof CompactionResponse>;
export type LastCompactionResponse = Static<typeof LastCompactionResponse>;
