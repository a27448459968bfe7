// Wire types of backups.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const time = { format: 'date-time' };
const timeOrNull = (description: string) => Type.Union([Type.String(time), Type.Null()], { description });

export const Backup = Type.Object(
  {
    id: Type.String({ examples: ['20261116T100000000Z-full'] }),
    kind: Type.Enum(['full', 'incremental']),
    parent: Type.Union([Type.String(), Type.Null()], {
      description: 'The backup to which an incremental one refers.',
    }),
    started_at: Type.String(time),
    ended_at: Type.String({ ...time, description: 'The first moment that it can restore.' }),
    databases: Type.Integer(),
    size_mb: Type.Number({ description: 'What is restored, before compression.' }),
    stored_mb: Type.Number({ description: 'What the storage holds, compressed and encrypted.' }),
  },
  { additionalProperties: false },
);
export type Backup = Static<typeof Backup>;

export const BackupsResponse = success({
  backups: Type.Array(Backup, { description: 'Oldest first.' }),
  storage: Type.String({ description: 'Where the backups are.' }),
  oldest_restorable: timeOrNull(
    'Every moment from here to newest_restorable can be restored. null: none can.',
  ),
  newest_restorable: timeOrNull('The moment up to which changes are stored.'),
  lag_seconds: Type.Union([Type.Number(), Type.Null()], {
    description: 'The age of the oldest change that is not stored yet. null: unknown.',
  }),
  lag_bytes: Type.Union([Type.Number(), Type.Null()], { description: 'WAL that is not stored yet.' }),
  last_verified_at: timeOrNull('When all backups were last read back without a problem.'),
});
export type BackupsResponse = Static<typeof BackupsResponse>;

export const TakeBackup = Type.Object(
  {
    kind: Type.Optional(
      Type.Enum(['full', 'incremental'], {
        default: 'incremental',
        description:
          'An incremental backup becomes a full one if there is no backup to which it could refer.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type TakeBackup = Static<typeof TakeBackup>;
