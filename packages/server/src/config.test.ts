import { describe, expect, it } from 'vitest';
import { ConfigError, readConfig, settings } from './config.ts';

const problemsOf = (env: Record<string, string>) => {
  try {
    readConfig(env, '/srv');
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).problems;
  }
};

describe('readConfig', () => {
  it('has the documented defaults, is frozen, and resolves the data folder', () => {
    const config = readConfig({}, '/srv');
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 8765,
      dataFolder: '/srv/.rowhouse',
      workers: 1,
      databaseUrl: null,
    });
    expect(Object.isFrozen(config)).toBe(true);
  });

  it.each([
    [{ ROWHOUSE_PORT: '80a' }],
    [{ ROWHOUSE_PORT: '70000' }],
    [{ ROWHOUSE_PORT: '' }],
    [{ ROWHOUSE_PORT: '-1' }],
    [{ ROWHOUSE_DATABASE_URL: 'mysql://u@h/d' }],
    [{ ROWHOUSE_DATABASE_URL: 'postgres://host-without-user/d' }],
    [{ ROWHOUSE_DATABASE_URL: 'postgres://u:%zz@h/d' }],
    [{ ROWHOUSE_MASTER_KEY: 'abc' }],
    [{ ROWHOUSE_CONTROL_DATABASE: 'Robert"; drop' }],
    [{ ROWHOUSE_CORS_ORIGINS: 'app.example.com' }],
    [{ ROWHOUSE_CORS_ORIGINS: 'https://a.example.com/path' }],
    [{ ROWHOUSE_LOG_LEVEL: 'loud' }],
    [{ ROWHOUSE_NEW_ACCOUNT_KEY: 'yes' }],
    [{ ROWHOUSE_TYPO: '1' }],
    [{ ROWHOUSE_PORT: '0', ROWHOUSE_WORKERS: '2' }],
    [{ ROWHOUSE_ACCOUNT_KEY: 'x', ROWHOUSE_NEW_ACCOUNT_KEY: '1' }],
  ])('refuses %j, naming the setting', (env) => {
    const problems = problemsOf(env as Record<string, string>);
    expect(problems.length).toBe(1);
    expect(problems[0]).toContain(Object.keys(env).at(0));
  });

  it('reports all problems at once', () => {
    expect(problemsOf({ ROWHOUSE_PORT: 'x', ROWHOUSE_WORKERS: '0', ROWHOUSE_NOPE: '' }).length).toBe(3);
  });

  it('reads what is given', () => {
    const env = {
      ROWHOUSE_CORS_ORIGINS: 'https://a.example.com, http://localhost:3000',
      ROWHOUSE_MASTER_KEY: 'AB'.repeat(32),
    };
    const config = readConfig(env, '/');
    expect(config.corsOrigins).toEqual(['https://a.example.com', 'http://localhost:3000']);
    expect(config.masterKey?.length).toBe(32);
    expect(readConfig({ ROWHOUSE_CORS_ORIGINS: 'none' }, '/').corsOrigins).toEqual([]);
  });

  it('describes every setting', () => {
    for (const setting of Object.values(settings)) expect(setting.about.endsWith('.')).toBe(true);
  });
});
