import { afterEach, expect, it, vi } from 'vitest';
import { settings as ofTheService } from '../../server/src/config.ts';
import { environmentOf, settings } from './settings.ts';

afterEach(() => vi.unstubAllEnvs());

it('has a flag for every setting of the service, named after it', () => {
  expect(settings.map(({ variable }) => variable)).toEqual(Object.keys(ofTheService));
  for (const { variable, flag } of settings) {
    const name = variable.replace('ROWHOUSE_', '').toLowerCase().replaceAll('_', '-');
    expect(flag.split(' ')[0]).toBe(`--${name}`);
  }
});

it('tells the default of every setting as the service has it', () => {
  for (const { variable, about } of settings) {
    const { fallback } = ofTheService[variable as keyof typeof ofTheService];
    if (fallback !== null && fallback !== false) expect(about).toMatch(`(${fallback})`);
  }
});

it('puts flags in front of the environment and leaves the rest alone', () => {
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
