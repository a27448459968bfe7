// Wire types of snapshots: moments with a name.
import Type, { type Static } from 'typebox';
import { success, title } from './envelope.ts';

export const Snapshot = Type.Object(
  {
    name: Type.String({ examples: ['before the migration'] }),
    at: Type.String({ format: 'date-time', description: 'Everything that was committed by then is in it.' }),
    is_restorable: Type.Boolean({ description: 'false: the backups no longer reach back to it.' }),
  },
  { additionalProperties: false },
);
export type Snapshot = Static<typeof Snapshot>;

export const CreateSnapshot = Type.Object({ name: title }, { additionalProperties: false });
export type CreateSnapshot = Static<typeof CreateSnapshot>;

export const SnapshotResponse = success({ snapshot: Snapshot });
export const SnapshotsResponse = success({ snapshots: Type.Array(Snapshot) });
export type SnapshotResponse = Static<typeof SnapshotResponse>;
export type SnapshotsResponse = Static<typeof SnapshotsResponse>;
