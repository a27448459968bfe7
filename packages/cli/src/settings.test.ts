import { defaultOf, type Setting, settings } from '@rowhouse/api/settings';
import { Command } from 'commander';
import { afterEach, expect, it, vi } from 'vitest';
import { environmentOf, withSettings } from './settings.ts';

afterEach(() => vi.unstubAllEnvs());

/** Wide enough that no line of the help text is wrapped. */
const helpLines = (command: Command) =>
  command.configureHelp({ helpWidth: 1000 }).helpInformation().split('\n');

it('gives every setting a flag whose help names the description, the default and the variable', () => {
  const lines = helpLines(withSettings(new Command('start')));
  for (const [name, setting] of Object.entries<Setting>(settings)) {
    const flag = `--${name.slice('ROWHOUSE_'.length).toLowerCase().replaceAll('_', '-')}`;
    const [line, ...others] = lines.filter((text) => text.trim().split(' ')[0] === flag);
    expect(others, flag).toEqual([]);
    expect(line, flag).toContain(setting.description);
    expect(line, flag).toContain(`env: ${name})`);
    if (setting.type !== 'boolean') expect(line, flag).toContain(`default: ${defaultOf(setting)};`);
  }
});

it('shows bounds, choices and units, and marks secrets', () => {
  const help = helpLines(withSettings(new Command('start'))).join('\n');
  expect(help).toMatch(/--port <number> +Port .* \(0 to 65535; default: 8765; env: ROWHOUSE_PORT\)\n/);
  expect(help).toMatch(/--log-level <choice> .* \(debug, info, warn, error; default: info; env: /);
  expect(help).toMatch(/--new-account-key {2}.* \(env: ROWHOUSE_NEW_ACCOUNT_KEY\)\n/);
  expect(help).toMatch(/--keep-deleted-days <number> .* \(0 to 3650; default: 7 days; env: /);
  expect(help).toMatch(/--master-key <hex> .* \(default: generated at the first start; secret; env: /);
  expect(help).toContain('default: 32 MB plus 1/16 of the disk, at most 1024 MB;');
});

it('adds only the flags that were asked for', () => {
  const help = helpLines(withSettings(new Command('doctor'), ['ROWHOUSE_PORT'])).join('\n');
  expect(help).toContain('--port');
  expect(help).not.toContain('--host');
});

it('overrides the environment with flags and leaves the rest unchanged', () => {
  vi.stubEnv('ROWHOUSE_PORT', '1');
  vi.stubEnv('ROWHOUSE_HOST', '::1');
  const env = environmentOf({ port: '9101', newAccountKey: true, databaseUrl: 'postgres://u@h/' });
  expect(env).toMatchObject({
    ROWHOUSE_PORT: '9101',
    ROWHOUSE_HOST: '::1',
    ROWHOUSE_NEW_ACCOUNT_KEY: 'true',
    ROWHOUSE_DATABASE_URL: 'postgres://u@h/',
  });
});
