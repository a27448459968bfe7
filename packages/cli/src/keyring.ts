// Keys in the keyring of the system, through the command that the system has for it. The key goes through a pipe, never
// through arguments, which other users of the machine can list.
import { spawnSync } from 'node:child_process';

export type Keyring = 'secret-tool' | 'security';

const timeoutMs = 20_000;
const service = 'rowhouse';

/** Stores the key and reads it back. null: this machine has no keyring, or it does not answer. */
export function storeKey(profile: string, key: string): Keyring | null {
  const keyring = process.platform === 'darwin' ? 'security' : 'secret-tool';
  // Without a session bus, secret-tool would start one of its own, which ends with it.
  if (keyring === 'secret-tool' && !process.env.DBUS_SESSION_BUS_ADDRESS) return null;
  const isStored =
    keyring === 'security'
      ? // Commands by stdin. A key has letters, digits and underscores only.
        run('security', ['-i'], `add-generic-password -U -s ${service} -a "${profile}" -w ${key}\n`)
      : run('secret-tool', ['store', `--label=Rowhouse: ${profile}`, ...attributes(profile)], key);
  return isStored !== null && findKey(keyring, profile) === key ? keyring : null;
}

export function findKey(keyring: Keyring, profile: string): string | null {
  const found =
    keyring === 'security'
      ? run('security', ['find-generic-password', '-s', service, '-a', profile, '-w'])
      : run('secret-tool', ['lookup', ...attributes(profile)]);
  return found?.trim() || null;
}

export function removeKey(keyring: Keyring, profile: string): void {
  if (keyring === 'security') run('security', ['delete-generic-password', '-s', service, '-a', profile]);
  else run('secret-tool', ['clear', ...attributes(profile)]);
}

const attributes = (profile: string) => ['service', service, 'profile', profile];

/** null: it is not installed, or it failed. */
function run(program: string, args: string[], input = ''): string | null {
  const { status, stdout } = spawnSync(program, args, {
    input,
    timeout: timeoutMs,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  return status === 0 ? stdout : null;
}
