// A project's settings for its users, stored in the single row of auth.settings.
import type { ChangeUserSettings, UserSettings } from '@rowhouse/api';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';

export async function getSettings({ store }: UserDeps, context: AuthContext): Promise<UserSettings> {
  return one(await store.ask<UserSettings>(context, readingSettings, []));
}

const settingsJson = `json_build_object('refuse_common_passwords', refuse_common_passwords)`;
const readingSettings = `select ${settingsJson} from auth.settings`;

export async function changeSettings(
  { store }: UserDeps,
  context: AuthContext,
  { refuse_common_passwords: refuse }: ChangeUserSettings,
): Promise<UserSettings> {
  const params = [refuse === undefined ? null : String(refuse)];
  return one(await store.ask<UserSettings>(context, changingSettings, params));
}

const changingSettings = `
  update auth.settings set refuse_common_passwords = coalesce($1::boolean, refuse_common_passwords)
  returning ${settingsJson}`;

function one<T>(value: T | null): T {
  if (value === null) throw new Error('The settings of users are missing.');
  return value;
}
