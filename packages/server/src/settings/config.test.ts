import { requirementOf, type Setting, settings } from '@rowhouse/api/settings';
import { fastify } from 'fastify';
import { describe, expect, it } from 'vitest';
import {
  backupLocation,
  ConfigError,
  consoleUrl,
  isOpenWithoutTls,
  providerIn,
  readConfig,
  urlOf,
} from './config.ts';

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

  it('puts backups beside the data of the embedded PostgreSQL, and elsewhere only where it is told to', () => {
    const location = (env: Record<string, string>) => backupLocation(readConfig(env, '/srv'));
    expect(location({})).toEqual({ kind: 'folder', folder: '/srv/.rowhouse/backups' });
    expect(location({ ROWHOUSE_BACKUP_URL: 'off' })).toBeNull();
    expect(location({ ROWHOUSE_DATABASE_URL: 'postgres://u:p@h/d' })).toBeNull();
    expect(location({ ROWHOUSE_BACKUP_URL: 'file:/mnt/b' })).toEqual({ kind: 'folder', folder: '/mnt/b' });
    const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' };
    const bucket = { ROWHOUSE_BACKUP_URL: 's3://bucket/prefix' };
    expect(location({ ...bucket, ...keys, AWS_SESSION_TOKEN: 'token' })).toMatchObject({
      kind: 's3',
      bucket: 'bucket',
      prefix: 'prefix',
      credentials: { accessKeyId: 'id', secretAccessKey: 'secret', sessionToken: 'token' },
    });
    expect(problemsOf(bucket)).toEqual([
      'ROWHOUSE_BACKUP_URL requires AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
    ]);
    expect(problemsOf({ ROWHOUSE_BACKUP_URL: '/mnt/b' })[0]).toContain('ROWHOUSE_BACKUP_URL must be');
  });

  it('takes a provider with all that it needs, over HTTPS or on this machine', () => {
    const secret = { ROWHOUSE_OIDC_CLIENT_ID: 'rowhouse', ROWHOUSE_OIDC_CLIENT_SECRET: 'hunter2' };
    const given = { ...secret, ROWHOUSE_OIDC_ISSUER: 'https://login.example.com' };
    expect(providerIn(readConfig({}, '/srv'))).toBeNull();
    expect(
      providerIn(readConfig({ ...given, ROWHOUSE_OIDC_DOMAINS: 'A.example, b.example' }, '/srv')),
    ).toEqual({
      issuer: 'https://login.example.com',
      clientId: 'rowhouse',
      clientSecret: 'hunter2',
      name: 'single sign-on',
      domains: ['a.example', 'b.example'],
    });
    expect(problemsOf(secret)[0]).toContain('Set ROWHOUSE_OIDC_ISSUER, too.');
    expect(problemsOf({ ...given, ROWHOUSE_HOST: '10.0.0.1' })[0]).toContain('ROWHOUSE_CONSOLE_HOSTS');
    for (const issuer of ['http://login.example.com', 'https://u:p@login.example.com', 'login.example.com'])
      expect(problemsOf({ ...secret, ROWHOUSE_OIDC_ISSUER: issuer })[0]).toContain(
        'ROWHOUSE_OIDC_ISSUER must be',
      );
    for (const domains of ['', 'com', '10.0.0.1', 'a b.example'])
      expect(problemsOf({ ...given, ROWHOUSE_OIDC_DOMAINS: domains }), domains).toHaveLength(1);
  });

  it('ignores the variables of the command line and the examples', () => {
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
    [{ ROWHOUSE_DATABASE_URL: 'postgres://u@h1,h1/d' }],
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
    [{ ROWHOUSE_POSTGRES_PORT: '0' }],
    [{ ROWHOUSE_POSTGRES_PORT: '8765' }],
    [{ ROWHOUSE_POSTGRES_PORT: '9000', ROWHOUSE_METRICS_PORT: '9000' }],
    [{ ROWHOUSE_PUBLIC_HOST: '' }],
    [{ ROWHOUSE_PUBLIC_HOST: 'db.example.com:5432' }],
    [{ ROWHOUSE_PUBLIC_HOST: 'db.example.com/x?y@z' }],
    [{ ROWHOUSE_PUBLIC_HOST: '-db.example.com' }],
    [{ ROWHOUSE_POSTGRES_TLS_CERT: 'certificate.pem' }],
    [{ ROWHOUSE_POSTGRES_TLS_KEY: 'key.pem' }],
    [{ ROWHOUSE_CONSOLE: 'yes' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: '' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: '*' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: 'a.example.com,' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: '*.example.com' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: 'https://db.example.com' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: 'db.example.com/console' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: 'db.example.com:99999' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: 'user@db.example.com' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: 'fd00::1' }],
    [{ ROWHOUSE_CONSOLE_HOSTS: '[db.example.com]' }],
    [{ ROWHOUSE_TYPO: '1' }],
    [{ ROWHOUSE_PORT: '0', ROWHOUSE_WORKERS: '2' }],
    [{ ROWHOUSE_ACCOUNT_KEY: 'x', ROWHOUSE_NEW_ACCOUNT_KEY: '1' }],
    [{ ROWHOUSE_OPERATOR_KEY: 'x', ROWHOUSE_NEW_OPERATOR_KEY: '1' }],
  ])('refuses %j, naming the setting', (env) => {
    const problems = problemsOf(env as Record<string, string>);
    expect(problems.length).toBe(1);
    expect(problems[0]).toContain(Object.keys(env).at(0));
    expect(problems[0]).not.toContain('hunter2');
  });

  it('reports all problems at once', () => {
    expect(problemsOf({ ROWHOUSE_PORT: 'x', ROWHOUSE_WORKERS: '0', ROWHOUSE_NOPE: '' }).length).toBe(3);
  });

  it('says what a value must be, and shows it unless it is a secret', () => {
    expect(problemsOf({ ROWHOUSE_PORT: 'x' })).toEqual([
      'ROWHOUSE_PORT must be a whole number from 0 to 65535, not "x".',
    ]);
    expect(problemsOf({ ROWHOUSE_LOG_TO: 'x'.repeat(1000) })).toEqual([
      `ROWHOUSE_LOG_TO must be one of file, stderr, not "${'x'.repeat(60)}…".`,
    ]);
    expect(problemsOf({ ROWHOUSE_HOST: '' })).toEqual([
      'ROWHOUSE_HOST must be an address, such as 0.0.0.0, not "".',
    ]);
    expect(problemsOf({ ROWHOUSE_MASTER_KEY: 'abc' })).toEqual([
      'ROWHOUSE_MASTER_KEY must be 64 hex digits (openssl rand -hex 32 generates them).',
    ]);
    expect(problemsOf({ ROWHOUSE_PROT: '1' })).toEqual([
      `Unknown setting ROWHOUSE_PROT. Known settings: ${Object.keys(settings).join(', ')}.`,
    ]);
  });

  it('reads values', () => {
    const env = {
      ROWHOUSE_CORS_ORIGINS: 'https://a.example.com, http://localhost:3000',
      ROWHOUSE_MASTER_KEY: 'AB'.repeat(32),
    };
    const config = readConfig(env, '/');
    expect(config.corsOrigins).toEqual(['https://a.example.com', 'http://localhost:3000']);
    expect(config.masterKey?.length).toBe(32);
    expect(readConfig({ ROWHOUSE_CORS_ORIGINS: 'none' }, '/').corsOrigins).toEqual([]);
  });

  it('reads where direct connections come in', () => {
    const files = { ROWHOUSE_POSTGRES_TLS_CERT: 'tls/cert.pem', ROWHOUSE_POSTGRES_TLS_KEY: '/etc/key.pem' };
    const config = readConfig(
      { ROWHOUSE_POSTGRES_PORT: '5432', ROWHOUSE_PUBLIC_HOST: 'fd00::1', ...files },
      '/srv',
    );
    expect(config).toMatchObject({ postgresPort: 5432, postgresHost: null, publicHost: 'fd00::1' });
    expect([config.postgresTlsCert, config.postgresTlsKey]).toEqual(['/srv/tls/cert.pem', '/etc/key.pem']);
    expect(problemsOf({ ROWHOUSE_POSTGRES_TLS_CERT: '', ROWHOUSE_POSTGRES_TLS_KEY: '' })).toHaveLength(2);
  });

  it('allows a mail server or a webhook, not both', () => {
    const mail = {
      ROWHOUSE_SMTP_URL: 'smtp://u:hunter2@h.example',
      ROWHOUSE_MAIL_FROM: 'Shop <a@b.example>',
    };
    const webhook = {
      ROWHOUSE_WEBHOOK_URL: 'https://h.example/x?y=1',
      ROWHOUSE_WEBHOOK_SECRET: 'hunter2'.repeat(3),
    };
    expect(problemsOf({ ...mail, ...webhook })).toEqual([
      'ROWHOUSE_SMTP_URL and ROWHOUSE_WEBHOOK_URL exclude each other. Set only one.',
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

  it('reads proxies in the format that fastify accepts', () => {
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
});

describe('declared settings', () => {
  const declared = Object.entries<Setting>(settings);

  /** An account key is checked by its checksum, once the service knows about keys. */
  it.each(declared.filter(([name]) => !/^ROWHOUSE_(ACCOUNT|OPERATOR)_KEY$/.test(name)))(
    '%s is read',
    (name, setting) => {
      const [problem = '', ...others] = problemsOf({ [name]: '' });
      expect(others).toEqual([]);
      expect(problem).toContain(`${name} must be ${requirementOf(setting)}`);
    },
  );

  it('accepts both bounds of an integer and nothing beyond them', () => {
    for (const [name, setting] of declared) {
      if (setting.type !== 'integer') continue;
      const { min, max } = setting;
      for (const value of [min, max]) expect(problemsOf({ [name]: String(value) }), name).toEqual([]);
      for (const value of [min - 1, max + 1])
        expect(problemsOf({ [name]: String(value) }), name).toHaveLength(1);
    }
  });

  it('accepts every choice and every documented example', () => {
    const pairs = {
      ROWHOUSE_MAIL_FROM: 'no-reply@example.com',
      ROWHOUSE_WEBHOOK_SECRET: 'x'.repeat(16),
      ROWHOUSE_TLS_CERT: 'certificate.pem',
      ROWHOUSE_TLS_KEY: 'key.pem',
      ROWHOUSE_POSTGRES_TLS_CERT: 'certificate.pem',
      ROWHOUSE_POSTGRES_TLS_KEY: 'key.pem',
      ROWHOUSE_OIDC_ISSUER: 'https://login.example.com',
      ROWHOUSE_OIDC_CLIENT_ID: 'rowhouse',
      ROWHOUSE_OIDC_CLIENT_SECRET: 'secret',
      ROWHOUSE_CONSOLE_HOSTS: 'db.example.com',
    };
    for (const [name, setting] of declared) {
      const examples = setting.type === 'text' ? [setting.example ?? []].flat() : [];
      for (const value of setting.type === 'choice' ? setting.choices : examples)
        expect(problemsOf({ ...pairs, [name]: value }), name).toEqual([]);
    }
  });

  it('have a description in whole sentences, and a default that is itself a valid value', () => {
    for (const [name, setting] of declared) {
      expect(setting.description, name).toMatch(/^[A-Z].*\.$/);
      if (setting.default !== null) expect(problemsOf({ [name]: String(setting.default) }), name).toEqual([]);
    }
  });
});

describe('the console', () => {
  it('takes hosts as browsers send them', () => {
    const given = 'DB.Example.com, db.example.com:8443,10.0.0.7,[FD00::0:1]:8765';
    expect(readConfig({ ROWHOUSE_CONSOLE_HOSTS: given }, '/').consoleHosts).toEqual([
      'db.example.com',
      'db.example.com:8443',
      '10.0.0.7',
      '[fd00::1]:8765',
    ]);
  });

  it.each([
    [{}, 'http://127.0.0.1:8765/console/'],
    [{ ROWHOUSE_HOST: 'localhost' }, 'http://localhost:8765/console/'],
    [{ ROWHOUSE_HOST: '::1' }, 'http://[::1]:8765/console/'],
    [{ ROWHOUSE_HOST: '0.0.0.0' }, 'http://127.0.0.1:8765/console/'],
    [{ ROWHOUSE_HOST: '::' }, 'http://127.0.0.1:8765/console/'],
    [{ ROWHOUSE_HOST: '10.0.0.7' }, null],
    [
      { ROWHOUSE_HOST: '0.0.0.0', ROWHOUSE_PORT: '443', ROWHOUSE_TLS_CERT: 'c', ROWHOUSE_TLS_KEY: 'k' },
      'https://127.0.0.1/console/',
    ],
    [
      { ROWHOUSE_HOST: '10.0.0.7', ROWHOUSE_CONSOLE_HOSTS: 'a.example.com,b.example.com' },
      'https://a.example.com/console/',
    ],
  ])('with %j is opened at %j', (env, url) => {
    const config = readConfig(env as Record<string, string>, '/');
    expect(consoleUrl(config, urlOf(config))).toBe(url);
  });
});

describe('without TLS', () => {
  it.each([
    [{}, false],
    [{ ROWHOUSE_HOST: '127.0.0.5' }, false],
    [{ ROWHOUSE_HOST: '0.0.0.0' }, true],
    [{ ROWHOUSE_HOST: '::' }, true],
    [{ ROWHOUSE_HOST: '192.168.1.7' }, true],
    [{ ROWHOUSE_HOST: '0.0.0.0', ROWHOUSE_TRUSTED_PROXIES: '10.0.0.1' }, false],
    [{ ROWHOUSE_HOST: '0.0.0.0', ROWHOUSE_TLS_CERT: 'c', ROWHOUSE_TLS_KEY: 'k' }, false],
  ])('%j is open to other machines: %j', (env, isOpen) => {
    expect(isOpenWithoutTls(readConfig(env as Record<string, string>, '/'))).toBe(isOpen);
  });
});
