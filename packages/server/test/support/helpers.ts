// What tests share: a service of their own on the common PostgreSQL, started and cleaned up.
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { FastifyInstance, InjectOptions } from 'fastify';
import pino, { type Logger } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, inject, onTestFailed } from 'vitest';
import { ensureAccount } from '../../src/access/accounts/first-account.ts';
import type { DeliveryConfig } from '../../src/access/mail/delivery.ts';
import type { ProviderConfig } from '../../src/access/people/provider.ts';
import { buildApp } from '../../src/app.ts';
import type { BackupOptions } from '../../src/backups/backups.ts';
import { prepareControl } from '../../src/control/control.ts';
import type { ConsoleOptions } from '../../src/http/console/console.ts';
import { createMetrics } from '../../src/metrics/http-requests.ts';
import { type Address, type Database, openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import type { PublicAddress } from '../../src/postgres-proxy/public-address.ts';
import { commentOf } from '../../src/servers/databases/names.ts';
import { openService, type Service } from '../../src/service.ts';
import type { ExportLimits } from '../../src/transfer/export/export.ts';
import type { ImportOptions } from '../../src/transfer/import/import.ts';

/** The imports folder of one installation: an account may keep only a few uploads. */
const importsFolderOf = (controlDatabase: string) => path.join(tmpdir(), `${controlDatabase}_imports`);

export const api = '/api/dbaas/v2';
export const address = (): Address => inject('address');

// biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of many shapes
export type Answer = { status: number; body: any; headers: Record<string, string | string[] | undefined> };

export type Call = { key?: string; body?: unknown; headers?: Record<string, string>; raw?: string | Buffer };

export type TestService = {
  app: FastifyInstance;
  service: Service;
  accountKey: string;
  operatorKey: string;
  controlDatabase: string;
  log: string[];
  call(method: string, path: string, options?: Call): Promise<Answer>;
  /** A fresh project, with its key. */
  project(name?: string): Promise<{ slug: string; id: string; key: string }>;
  stop(): Promise<void>;
};

export type TestServiceOptions = {
  controlDatabase?: string;
  masterKey?: Buffer;
  at?: Address;
  spares?: number;
  background?: boolean;
  keepDeletedDays?: number;
  connections?: { budget: number; kept?: number; share: number };
  passwordIterations?: number;
  delivery?: DeliveryConfig;
  trustedProxies?: string[];
  requestLog?: Logger | null;
  disk?: { folder: string; reserveBytes: number | null };
  embedded?: { folder: string; restartAfterMs: number };
  now?: () => number;
  corsOrigins?: '*' | string[];
  exports?: { limits: ExportLimits };
  imports?: Omit<ImportOptions, 'folder'> & { folder?: string };
  backups?: BackupOptions;
  restores?: { dataFolder: string; isExternal?: boolean; stallMs?: number };
  proxy?: PublicAddress;
  timeouts?: { headersMs: number; requestMs: number; checkMs: number };
  console?: ConsoleOptions | null;
  /** The address of the console, for links in mail. */
  consolePage?: string;
  provider?: ProviderConfig;
};

/** One service, as one process would run it. Stopping leaves its databases; `useTestService` removes them. */
export async function openTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const controlDatabase = options.controlDatabase ?? newControlName();
  const at = options.at ?? address();
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line) => void lines.push(line) });
  await prepareControl(at, controlDatabase);
  const service = await openService({
    address: at,
    serverName: 'test',
    controlDatabase,
    masterKey: options.masterKey ?? randomBytes(32),
    spares: options.spares ?? 2,
    background: options.background ?? true,
    limits: { maxLimitMb: 10_000, keepDeletedDays: options.keepDeletedDays ?? 7, maxTimeoutMs: 120_000 },
    connections: options.connections ?? { budget: 20, share: 5 },
    users: {
      // Enough to be real, few enough for tests.
      passwordIterations: options.passwordIterations ?? 1_000,
      delivery: options.delivery ?? { smtpUrl: null, mailFrom: null, webhookUrl: null, webhookSecret: null },
    },
    ...(options.now && { now: options.now }),
    ...(options.disk && { disk: options.disk }),
    ...(options.embedded && { embedded: options.embedded }),
    ...(options.exports && { exports: options.exports }),
    imports: { folder: importsFolderOf(controlDatabase), allowPrivateHosts: false, ...options.imports },
    ...(options.backups && { backups: options.backups }),
    ...(options.restores && { restores: options.restores }),
    ...(options.proxy && { proxy: options.proxy }),
    ...(options.consolePage && { consolePage: options.consolePage }),
    ...(options.provider && { provider: options.provider }),
    log,
  });
  let accountKey = '';
  let operatorKey = '';
  await ensureAccount(
    service.deps.control,
    { accountKey: null, newAccountKey: false },
    ({ account, operator }) => {
      accountKey = account ?? '';
      operatorKey = operator ?? '';
    },
  );
  const app = await buildApp(service.deps, {
    corsOrigins: options.corsOrigins ?? '*',
    metrics: createMetrics(service.gauges, service.counters, service.serverGauges),
    metricsHere: true,
    trustedProxies: options.trustedProxies ?? [],
    requestLog: options.requestLog ?? null,
    console: options.console === undefined ? { hosts: [], folder: null } : options.console,
    ...(options.timeouts && { timeouts: options.timeouts }),
  });
  const call: TestService['call'] = async (
    method,
    path,
    { key = accountKey, body, headers = {}, raw } = {},
  ) => {
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await app.inject({
      method: method as NonNullable<InjectOptions['method']>,
      url: path.startsWith('/') && !path.startsWith('/projects') ? path : api + path,
      headers: {
        ...(key && { 'x-api-key': key }),
        ...(payload !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(payload !== undefined && { payload }),
    });
    const isJson = String(response.headers['content-type']).includes('json');
    const answer = {
      status: response.statusCode,
      body: isJson ? response.json() : response.body,
      headers: response.headers as Answer['headers'],
    };
    expect(answer.headers['x-request-id'], 'every response names its request').toBeTruthy();
    return answer;
  };
  return {
    app,
    service,
    accountKey,
    operatorKey,
    controlDatabase,
    log: lines,
    call,
    project: async (name = 'Test project') => {
      const { status, body } = await call('POST', '/projects', { body: { name } });
      expect(status, JSON.stringify(body)).toBe(201);
      return { slug: body.project.slug, id: body.project.id, key: body.api_key };
    },
    stop: async () => {
      await app.close();
      await service.stop();
    },
  };
}

/**
 * A second process of the same service: the same control database and master key, without background work and spares
 * unless `more` asks for them. The caller stops it.
 */
export function openSecondProcess(
  { controlDatabase, service }: TestService,
  more: TestServiceOptions = {},
): Promise<TestService> {
  const { masterKey } = service.deps;
  return openTestService({ controlDatabase, masterKey, background: false, spares: 0, ...more });
}

/** A service for the tests of a file. Fails if a connection is left open; keeps its databases if a test failed. */
export function useTestService(options: TestServiceOptions = {}): TestService {
  const controlDatabase = newControlName();
  const rowhouse = {} as TestService;
  let failed = false;
  beforeAll(async () => {
    Object.assign(rowhouse, await openTestService({ ...options, controlDatabase }));
  });
  beforeEach(() => {
    onTestFailed(() => {
      failed = true;
      console.error(`kept for a look: control database ${controlDatabase}`);
    });
  });
  afterAll(async () => {
    const { installation } = rowhouse.service.deps.server;
    await rowhouse.stop();
    if (!failed) await removeTestService(controlDatabase, installation);
  });
  return rowhouse;
}

export function newControlName(): string {
  return `rowhouse_test_${randomBytes(5).toString('hex')}`;
}

export async function removeTestService(
  controlDatabase: string,
  installation: string,
  at = address(),
): Promise<void> {
  rmSync(importsFolderOf(controlDatabase), { recursive: true, force: true });
  await asAdmin(async (admin) => {
    const databases = await admin.query<{ name: string }>(sql`
      select datname as name from pg_database
      where shobj_description(oid, 'pg_database') = ${commentOf({ installation })}`);
    const names = [controlDatabase, ...databases.map(({ name }) => name)];
    const open = await leftOpen(admin, names);
    expect(open, 'connections left open').toEqual([]);
    for (const name of names) await admin.query(sql`drop database if exists ${sql.id(name)} with (force)`);
    // Afterwards: a project can have granted something to the role of another one.
    for (const name of names) {
      if (!name.startsWith('p_')) continue;
      for (const role of [`${name}_dump`, `${name}_anon`, `${name}_user`, `${name}_auth`, name])
        await admin.query(sql`drop role if exists ${sql.id(role)}`);
    }
  }, at);
}

/** A closed connection's process may take a moment to go. */
async function leftOpen(admin: Database, names: string[]): Promise<string[]> {
  for (let attempt = 0; ; attempt++) {
    const rows = await admin.query<{ found: string }>(sql`
      select datname || ': ' || query as found from pg_stat_activity
      where datname = any (${names}::text[]) and backend_type = 'client backend'`);
    if (rows.length === 0 || attempt === 20) return rows.map(({ found }) => found);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export async function asAdmin<T>(run: (admin: Database) => Promise<T>, at = address()): Promise<T> {
  const admin = openDatabase(at, { max: 1 });
  try {
    return await run(admin);
  } finally {
    await admin.end();
  }
}

/** For what the service promises within a second: ten times that, for a busy machine. */
export const soon = 10_000;

/** Waits for something that comes by itself; fails with `what` if it does not. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  withinMs = 60_000,
): Promise<T> {
  const deadline = Date.now() + withinMs;
  for (let pauseMs = 5; ; pauseMs = Math.min(50, 2 * pauseMs)) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** The job as it is once it has ended. */
// biome-ignore lint/suspicious/noExplicitAny: a test looks into results of many shapes
export function jobEnd({ call }: Pick<TestService, 'call'>, id: string, withinMs = 60_000): Promise<any> {
  return until(
    'the job has ended',
    async () => {
      const { job } = (await call('GET', `${api}/jobs/${id}`)).body;
      return job.status !== 'running' && job;
    },
    withinMs,
  );
}

/** Whoever waits for `passed` goes on when the test calls `open`. */
export function openGate(): { passed: Promise<void>; open: () => void } {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}
