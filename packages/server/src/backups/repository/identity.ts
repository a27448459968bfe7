// Which repository is at which place, as the control database remembers it. A place that is new to the installation is set up
// once. After that, a place without the marker is a disk that is not mounted or a repository that is lost, and is left alone.

import type { Control } from '../../control/control.ts';
import { findSetting } from '../../control/settings.ts';
import { sql } from '../../postgres/sql.ts';
import type { BackupLocation } from '../../settings/backup-url.ts';
import { absent, type WantedId } from '../storage/guard.ts';
import { readMarker, writeMarker } from '../storage/marker.ts';
import type { Storage } from '../storage/storage.ts';
import { listClusters } from './repository.ts';

export type RepositoryIdentity = {
  wanted: WantedId;
  /** The operator gives up what was there: what is there now counts, and gets a marker if it has none. */
  accept(): Promise<void>;
};

type Deps = {
  control: Control;
  /** Not guarded. */
  storage: Storage;
  location: BackupLocation;
  /** The system identifiers of the servers. */
  clusters: () => Promise<string[]>;
};

export function openIdentity({ control, storage, location, clusters }: Deps): RepositoryIdentity {
  const place = placeOf(location);
  let known: string | null = null;

  const remember = async (id: string, isNew: boolean): Promise<void> => {
    await control.query(sql`
      insert into settings (name, value) values ('backup_repositories', jsonb_build_object(${place}::text, ${id}::text)::text)
      on conflict (name) do update set value = case
        when ${isNew} then settings.value::jsonb || excluded.value::jsonb
        else excluded.value::jsonb || settings.value::jsonb end::text`);
  };

  const remembered = async () => readPlaces(await findSetting(control, 'backup_repositories'));

  const setUp = async (): Promise<string> => {
    const present = await readMarker(storage);
    if (present === null && (await wasWrittenElsewhere())) throw absent(storage.place, null);
    await remember(present ?? (await writeMarker(storage)), false);
    const id = (await remembered())[place];
    if (id === undefined) throw new Error('The control database does not keep settings.');
    return id;
  };

  /** An earlier version made no markers. Where it has stored backups, they must be there. */
  const wasWrittenElsewhere = async (): Promise<boolean> => {
    if (Object.keys(await remembered()).length > 0) return false;
    const taken = await control.query(
      sql`select from settings where name = 'backup_taken_at' or starts_with(name, 'backup_taken_at:')`,
    );
    if (taken.length === 0) return false;
    const stored = await listClusters(storage);
    const ours = await clusters();
    return !stored.some((cluster) => ours.includes(cluster));
  };

  return {
    wanted: async (fresh) => {
      if (known === null || fresh) known = (await remembered())[place] ?? (await setUp());
      return known;
    },
    accept: async () => {
      const id = (await readMarker(storage)) ?? (await writeMarker(storage));
      await remember(id, true);
      known = id;
    },
  };
}

/** The id of the repository at this place. null: nothing is known of it. `value`: of the setting. */
export function rememberedAt(location: BackupLocation, value: string | null): string | null {
  return readPlaces(value)[placeOf(location)] ?? null;
}

function readPlaces(value: string | null): Record<string, string> {
  return JSON.parse(value ?? '{}') as Record<string, string>;
}

function placeOf(location: BackupLocation): string {
  if (location.kind === 'folder') return location.folder;
  return `s3:${location.endpoint}/${location.bucket}/${location.prefix}`;
}
