// Giving space back to the disk, on the wire.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const time = { format: 'date-time' };

export const Compaction = Type.Object(
  {
    status: Type.Enum(['running', 'done', 'failed', 'stopped'], {
      description: 'stopped: the service ended meanwhile, or its time was over; start it again to go on.',
    }),
    started_at: Type.String(time),
    finished_at: Type.Union([Type.String(time), Type.Null()]),
    tables_total: Type.Integer(),
    tables_done: Type.Integer(),
    current: Type.Union([Type.String(), Type.Null()], {
      description: 'The table it is at, quoted as in SQL.',
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
              'locked, gone, no_room_in_limit, no_room_on_disk, too_slow, or what PostgreSQL said. The table is as it was, or only vacuumed.',
          }),
        },
        { additionalProperties: false },
      ),
      { description: 'The first 100.' },
    ),
    skipped_count: Type.Integer({ description: 'All of them.' }),
    error: Type.Union([Type.String(), Type.Null()]),
  },
  { additionalProperties: false },
);
export type Compaction = Static<typeof Compaction>;

export const CompactionResponse = success({ compaction: Compaction });
export const LastCompactionResponse = success({ compaction: Type.Union([Compaction, Type.Null()]) });
export type CompactionResponse = Static<typeof CompactionResponse>;
export type LastCompactionResponse = Static<typeof LastCompactionResponse>;
