// The memory of the whole process while it exports. The figures are far above what was measured, and far below what it takes if
// WebAssembly is compiled a second time, or if pieces of the file are left to the garbage collector.
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { api } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, usedDataFolder } from '../support/process.ts';

const mb = 1024 * 1024;

it.skipIf(process.platform !== 'linux')(
  'an export takes little memory in every format, and gives it back',
  { timeout: 300_000 },
  async () => {
    const service = await launch({
      ROWHOUSE_DATA: await usedDataFolder(),
      ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
      ROWHOUSE_BACKUP_URL: 'off',
      // Nothing is installed.
      PATH: newDataFolder(),
    });
    const { body: created } = await service.call('POST', '/projects', { body: { name: 'Large' } });
    const key = created.api_key as string;
    const slug = created.project.slug as string;
    const query = async (text: string) => {
      const { status, body } = await service.call('POST', `/projects/${slug}/query`, {
        key,
        body: { query: text, timeout_ms: 120_000 },
      });
      expect(status, JSON.stringify(body)).toBe(200);
    };
    for (let n = 0; n < 100; n++) await query(`select ${n}`);
    await query(`create table documents as
      select n as id, repeat(md5(n::text), 8) as body from generate_series(1, 400000) as n`);
    const { pid } = service.child;
    const read = (name: string) =>
      Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) /
      1024;
    const before = read('VmRSS');
    for (const format of ['sql', 'custom', 'csv']) {
      // The kernel's own peak, from here on.
      writeFileSync(`/proc/${pid}/clear_refs`, '5');
      const response = await fetch(`${service.url}${api}/projects/${slug}/export?format=${format}`, {
        headers: { 'x-api-key': key },
      });
      expect(response.status).toBe(200);
      let bytes = 0;
      for await (const piece of response.body ?? []) bytes += piece.length;
      expect(bytes).toBeGreaterThan(4 * mb);
      expect(read('VmHWM'), format).toBeLessThan(before + 60);
    }
    await sleep(5_000);
    expect(read('VmRSS')).toBeLessThan(before + 40);
  },
);
