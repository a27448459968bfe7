// Wire types of backups.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const time = { format: 'date-time' };
const timeOrNull = (description: string) => Type.Union([Type.String(time), Type.Null()], { description });

export const Backup = Type.Object(
  {
    id: Type.String({ examples: ['20261116T100000000Z-full'] }),
    server: Type.String({ description: 'The name of the server that was backed up.' }),
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

export const RestorableRange = Type.Object(
  { from: Type.String(time), to: Type.String(time) },
  { additionalProperties: false },
);

const restorable = {
  oldest_restorable: timeOrNull('The first moment that can be restored. null: there is none.'),
  newest_restorable: timeOrNull('The last moment that can be restored.'),
  restorable: Type.Array(RestorableRange, {
    description:
      'Every moment of these ranges can be restored, oldest first. There are several if WAL was lost in between, or if the server itself was restored.',
  }),
  lag_seconds: Type.Union([Type.Number(), Type.Null()], {
    description: 'The age of the oldest change that is not stored yet. null: unknown.',
  }),
  lag_bytes: Type.Union([Type.Number(), Type.Null()], { description: 'WAL that is not stored yet.' }),
  last_verified_at: timeOrNull('When all backups were last read back without a problem.'),
  restore_verified_at: timeOrNull(
    'When a project was last restored into a copy and found to be equal to the live one. null: never.',
  ),
};

export const ServerBackups = Type.Object(
  {
    name: Type.String(),
    problem: Type.Union([Type.String(), Type.Null()], {
      description:
        'Why the server is not being backed up now. What was stored before can be restored. null: it is.',
    }),
    hint: Type.Union([Type.String(), Type.Null()], { description: 'What the operator can do about it.' }),
    ...restorable,
  },
  { additionalProperties: false },
);
export type ServerBackups = Static<typeof ServerBackups>;

/** The parameter of the list, and the body of requests for all servers. */
export const OfServer = Type.Object(
  {
    server: Type.Optional(
      Type.String({ maxLength: 100, description: 'The name of a server. Without it, all servers count.' }),
    ),
  },
  { additionalProperties: false },
);
export type OfServer = Static<typeof OfServer>;

export const BackupsResponse = success({
  backups: Type.Array(Backup, { description: 'Oldest first, server by server.' }),
  damaged: Type.Array(
    Type.Object(
      { id: Type.String(), server: Type.String(), problem: Type.String() },
      { additionalProperties: false },
    ),
    {
      description:
        'Backups whose descriptions cannot be read. They cannot be restored, and neither can backups that refer to them.',
    },
  ),
  storage: Type.String({ description: 'Where the backups are.' }),
  is_on_data_disk: Type.Boolean({
    description: 'Whether the backups are on the disk of the data. If that disk is lost, so are the backups.',
  }),
  ...restorable,
  servers: Type.Array(ServerBackups, {
    description:
      'One entry for each server. The fields of the same names beside it are those of the named server, or of the first one.',
  }),
  failing_drills: Type.Integer({ description: 'Projects whose last restore drill failed.' }),
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
    new_repository: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Give up the repository that was at this place, and begin a new one there. An intact repository stays as it is.',
      }),
    ),
    ...OfServer.properties,
  },
  { additionalProperties: false },
);
export type TakeBackup = Static<typeof TakeBackup>;

export const DrillRestore = Type.Object(
  {
    project: Type.Optional(
      Type.String({ description: 'The slug of a project. Without it, projects take turns.' }),
    ),
  },
  { additionalProperties: false },
);
export type DrillRestore = Static<typeof DrillRestore>;
