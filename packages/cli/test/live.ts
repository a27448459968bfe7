// A running service for tests of commands, and the command itself in a folder and a configuration of the test's own.
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import {
  cleanUp,
  launch,
  newAccountKey,
  type Running,
  usedDataFolder,
} from '../../server/test/support/process.ts';
import { bare, bin } from './installation.ts';

export type Ran = { status: number | null; out: string; err: string };

export type Live = {
  service: Running;
  accountKey: string;
  /** The working folder of the command. */
  folder: string;
  config: string;
  env(more?: Record<string, string>): NodeJS.ProcessEnv;
  run(args: string[], more?: { env?: Record<string, string>; input?: string; cwd?: string }): Ran;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
  json(...args: string[]): any;
};

export function useService(settings: Record<string, string> = {}): Live {
  const live = { accountKey: newAccountKey() } as Live;
  beforeAll(async () => {
    live.folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'rowhouse-cli-')));
    live.config = path.join(live.folder, 'config');
    mkdirSync(path.join(live.folder, 'work'));
    live.service = await launch({
      ROWHOUSE_DATA: await usedDataFolder(),
      ROWHOUSE_ACCOUNT_KEY: live.accountKey,
      ...settings,
    });
  });
  afterAll(async () => {
    await cleanUp();
    rmSync(live.folder, { recursive: true, force: true });
  });
  // An empty value takes a variable away.
  const present = (env: NodeJS.ProcessEnv) =>
    Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  live.env = (more = {}) =>
    present({
      ...bare,
      NO_COLOR: '1',
      XDG_CONFIG_HOME: live.config,
      ROWHOUSE_URL: live.service.url,
      ROWHOUSE_API_KEY: live.accountKey,
      DBUS_SESSION_BUS_ADDRESS: '',
      ...more,
    });
  live.run = (args, { env, input = '', cwd = path.join(live.folder, 'work') } = {}) => {
    const result: SpawnSyncReturns<string> = spawnSync(process.execPath, [bin, ...args], {
      encoding: 'utf8',
      env: live.env(env),
      input,
      cwd,
      timeout: 120_000,
    });
    // A stack is never shown, and neither is a key.
    expect(result.stderr).not.toContain('    at ');
    expect(result.stdout + result.stderr).not.toContain(live.accountKey);
    return { status: result.status, out: result.stdout, err: result.stderr };
  };
  live.json = (...args) => JSON.parse(live.run([...args, '--json']).out);
  return live;
}

/** A service with a project `shop`, which the command uses unless it is told otherwise. */
export function useShop() {
  const live = useService();
  const shop = { ROWHOUSE_PROJECT: 'shop' };
  let projectKey = '';
  beforeAll(() => {
    projectKey = live.json('projects', 'create', 'Shop', '--slug', 'shop').api_key;
  });
  return {
    live,
    shop,
    projectKey: () => projectKey,
    /** A file in the working folder. */
    work: (...parts: string[]) => path.join(live.folder, 'work', ...parts),
    run: (args: string[], more: { input?: string; env?: Record<string, string> } = {}): Ran =>
      live.run(args, { ...more, env: { ...shop, ...more.env } }),
  };
}
