// The user's own file of profiles and linked folders. It can hold keys: only its owner may read it, and it is replaced as a
// whole. It lies in the user's configuration folder, never in a project's: a repository from elsewhere chooses no service.
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { failure } from './failure.ts';
import type { Keyring } from './keyring.ts';

export type Profile = {
  url: string;
  /** Without it, the key is in `keyring`. */
  key?: string;
  keyring?: Keyring;
  /** The certificate of an authority of one's own: the path of its file. */
  ca?: string;
};
export type Link = { project: string; profile?: string };
export type Config = {
  /** The profile of commands that name none. */
  current?: string;
  profiles: Record<string, Profile>;
  /** By folder. */
  links: Record<string, Link>;
};

export const configFolder = (env: NodeJS.ProcessEnv = process.env): string => {
  const base = process.platform === 'win32' ? env.APPDATA : env.XDG_CONFIG_HOME;
  return path.join(base && path.isAbsolute(base) ? base : path.join(homedir(), '.config'), 'rowhouse');
};
const configFile = () => path.join(configFolder(), 'config.json');

export function readConfig(): Config {
  const file = configFile();
  let text: string;
  try {
    const { mode, uid } = statSync(file);
    const isForeign = process.getuid !== undefined && uid !== process.getuid();
    if (process.platform !== 'win32' && (isForeign || (mode & 0o077) !== 0))
      throw failure(
        'config_not_private',
        `Other users can read or replace ${file}, which can hold keys.`,
        `Make it yours alone: chmod 600 '${file}'. If others may have read it, replace its keys.`,
      );
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { profiles: {}, links: {} };
    throw error;
  }
  try {
    const { current, profiles = {}, links = {} } = JSON.parse(text) as Partial<Config>;
    // Without a prototype: a profile may be called "constructor".
    return {
      ...(typeof current === 'string' && { current }),
      profiles: Object.assign(Object.create(null), profiles),
      links: Object.assign(Object.create(null), links),
    };
  } catch {
    throw failure('config_damaged', `${file} is damaged.`, 'Repair or delete it, then: rowhouse login');
  }
}

/** Reads, changes and replaces the file. A reader sees the old one or the new one. */
export function changeConfig(change: (config: Config) => void): void {
  const config = readConfig();
  change(config);
  const file = configFile();
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const part = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    const handle = openSync(part, 'wx', 0o600);
    try {
      writeSync(handle, `${JSON.stringify(config, null, 2)}\n`);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    renameSync(part, file);
  } catch (error) {
    rmSync(part, { force: true });
    throw failure('not_written', `${file} could not be written: ${(error as Error).message}.`);
  }
}
