// The console sessions of README and docs, run command by command on a service of their own.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import {
  asPattern,
  cutSection,
  fleetSteps,
  pagesIn,
  runConsole,
  withoutSessions,
} from '../support/console-sessions.ts';
import { freePort, launch, newAccountKey, usedDataFolder } from '../support/process.ts';

const root = path.resolve(import.meta.dirname, '../../../..');

const isInstalled = (program: string) => spawnSync(program, ['--version']).status === 0;
const [hasPsql, hasJq] = [isInstalled('psql'), isInstalled('jq')];
if (!hasPsql)
  console.error('SKIPPED: psql is not installed, so the sessions in the docs that use it do not run.');
if (!hasJq) console.error('SKIPPED: jq is not installed, so the console sessions in the docs do not run.');

const withBackups = ['docs/backups.md', 'docs/operating.md'];

/** All pages with a session. */
export const pages = pagesIn(root).filter((page) => !withoutSessions.includes(page));

export function expectSessions(chosen: readonly string[]): void {
  it.skipIf(!hasJq).each(chosen)('every console session in %s gives the output it shows', async (file) => {
    const key = newAccountKey();
    const folder = await usedDataFolder();
    const service = await launch({
      ROWHOUSE_DATA: folder,
      ROWHOUSE_ACCOUNT_KEY: key,
      ...(withBackups.includes(file) && { ROWHOUSE_BACKUP_URL: `file:${folder}/backups` }),
      ...(file === 'docs/connections.md' && { ROWHOUSE_POSTGRES_PORT: String(await freePort()) }),
    });
    const edit = (command: string) =>
      command
        .replace('http://127.0.0.1:8765', service.url)
        .replace('rh_acct_…', key)
        .replace(/ \.rowhouse\b/, ` ${folder}`);
    const page = cutSection(readFileSync(path.join(root, file), 'utf8'), fleetSteps).rest;
    // The command as an installation has it, with a configuration of its own.
    const env = {
      ...process.env,
      PATH: `${path.join(root, 'node_modules/.bin')}:${process.env.PATH}`,
      XDG_CONFIG_HOME: `${folder}/config`,
      DBUS_SESSION_BUS_ADDRESS: '',
    };
    const { ran, problems } = await runConsole(page, edit, { cwd: root, env });
    for (const { command, shown, output } of ran) {
      if (hasPsql || !command.startsWith('psql '))
        expect(output, `${command}\n${problems}`).toMatch(asPattern(shown));
    }
  });
}
