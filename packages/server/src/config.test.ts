import { fastify } from 'fastify';
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

  it('leaves alone what the command line and the examples read', () => {
    expect(problemsOf({ ROWHOUSE_URL: 'x', ROWHOUSE_API_KEY: 'x', ROWHOUSE_PROJECT: 'x' })).toEqual([]);
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
    [{ ROWHOUSE_TRUSTED_PROXIES: '' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: '10.0.0.1,' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: '10.0.0.256' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: '10.0.0.0/33' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: '0.0.0.0/0' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: '::/0' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: '10.0.0.0/255.0.0.0' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: 'fe80::1%eth0' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: 'proxy.example.com' }],
    [{ ROWHOUSE_TRUSTED_PROXIES: 'true' }],
    [{ ROWHOUSE_PASSWORD_ITERATIONS: '99999' }],
    [{ ROWHOUSE_PASSWORD_ITERATIONS: '10000001' }],
    [{ ROWHOUSE_SMTP_URL: 'mail.example.com', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'https://mail.example.com', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://user@h.example', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://:hunter2@h.example', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://u:hunter2%@h.example', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://h.example/path', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://h.example?pool=true', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://h%0d.example', ROWHOUSE_MAIL_FROM: 'a@b.example' }],
    [{ ROWHOUSE_MAIL_FROM: 'nobody' }],
    [{ ROWHOUSE_MAIL_FROM: 'a@b.example, c@d.example' }],
    [{ ROWHOUSE_MAIL_FROM: 'A <a@b.example>\r\nBcc: c@d.example' }],
    [{ ROWHOUSE_MAIL_FROM: 'x@y.example <a@b.example>' }],
    [{ ROWHOUSE_WEBHOOK_URL: 'ftp://h.example', ROWHOUSE_WEBHOOK_SECRET: 'hunter2'.repeat(3) }],
    [{ ROWHOUSE_WEBHOOK_URL: 'https://u:hunter2@h.example', ROWHOUSE_WEBHOOK_SECRET: 'hunter2'.repeat(3) }],
    [{ ROWHOUSE_WEBHOOK_SECRET: 'hunter2', ROWHOUSE_WEBHOOK_URL: 'https://h.example' }],
    [{ ROWHOUSE_SMTP_URL: 'smtp://u:hunter2@h.example' }],
    [{ ROWHOUSE_WEBHOOK_URL: 'https://h.example' }],
    [{ ROWHOUSE_TYPO: '1' }],
    [{ ROWHOUSE_PORT: '0', ROWHOUSE_WORKERS: '2' }],
    [{ ROWHOUSE_ACCOUNT_KEY: 'x', ROWHOUSE_NEW_ACCOUNT_KEY: '1' }],
  ])('refuses %j, naming the setting', (env) => {
    const problems = problemsOf(env as Record<string, string>);
    expect(problems.length).toBe(1);
    expect(problems[0]).toContain(Object.keys(env).at(0));
    expect(problems[0]).not.toContain('hunter2');
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

  it('has one way for messages to go out, or none', () => {
    const mail = {
      ROWHOUSE_SMTP_URL: 'smtp://u:hunter2@h.example',
      ROWHOUSE_MAIL_FROM: 'Shop <a@b.example>',
    };
    const webhook = {
      ROWHOUSE_WEBHOOK_URL: 'https://h.example/x?y=1',
      ROWHOUSE_WEBHOOK_SECRET: 'hunter2'.repeat(3),
    };
    expect(problemsOf({ ...mail, ...webhook })).toEqual([
      'ROWHOUSE_SMTP_URL and ROWHOUSE_WEBHOOK_URL contradict each other: choose one of them.',
    ]);
    const none = { smtpUrl: null, mailFrom: null, webhookUrl: null, webhookSecret: null };
    expect(readConfig({}, '/')).toMatchObject(none);
    const { ROWHOUSE_SMTP_URL: smtpUrl, ROWHOUSE_MAIL_FROM: mailFrom } = mail;
    expect(readConfig(mail, '/')).toMatchObject({ ...none, smtpUrl, mailFrom });
    const { ROWHOUSE_WEBHOOK_URL: webhookUrl, ROWHOUSE_WEBHOOK_SECRET: webhookSecret } = webhook;
    expect(readConfig(webhook, '/')).toMatchObject({ ...none, webhookUrl, webhookSecret });
    for (const address of [
      'smtp://localhost:25',
      'smtps://[::1]:465',
      'smtp://10.0.0.1/',
      'smtp://u:p%40%2F@h.example',
    ]) {
      expect(problemsOf({ ...mail, ROWHOUSE_SMTP_URL: address })).toEqual([]);
    }
    for (const from of ['a@b.example', 'Müller & Söhne <a@b.example>', '愛 <a@例え.jp>']) {
      expect(problemsOf({ ...mail, ROWHOUSE_MAIL_FROM: from })).toEqual([]);
    }
  });

  it('reads proxies in the form that the web server takes', () => {
    const list = 'loopback, 10.0.0.7,10.1.0.0/16 , ::1, fd00::/8, ::ffff:10.0.0.1';
    const { trustedProxies } = readConfig({ ROWHOUSE_TRUSTED_PROXIES: list }, '/');
    expect(trustedProxies).toEqual([
      'loopback',
      '10.0.0.7',
      '10.1.0.0/16',
      '::1',
      'fd00::/8',
      '::ffff:10.0.0.1',
    ]);
    expect(() => fastify({ trustProxy: [...(trustedProxies ?? [])] })).not.toThrow();
    expect(readConfig({}, '/').trustedProxies).toBeNull();
  });

  it('describes every setting', () => {
    for (const setting of Object.values(settings)) expect(setting.about.endsWith('.')).toBe(true);
  });
});
