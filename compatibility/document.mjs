// The OpenAPI document of a live service, in a file, for programs that read it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { useLiveService } from './service.mjs';

/** `place`: a folder that is removed afterwards. */
export function useDocument() {
  const live = useLiveService();
  const place = mkdtempSync(path.join(tmpdir(), 'rowhouse-openapi-'));
  const file = path.join(place, 'openapi.json');
  const baseOf = () => live.endpoint.replace(/\/sql$/, '');
  beforeAll(async () => {
    writeFileSync(file, await (await fetch(`${baseOf()}/openapi.json`)).text());
  });
  afterAll(() => rmSync(place, { recursive: true, force: true }));
  /** Without blocking this process, in which the service runs. */
  const run = async (command, args, env = {}) => {
    const child = spawn(command, args, {
      cwd: place,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data));
    const [status] = await once(child, 'close');
    return { status, output };
  };
  return { live, place, file, baseOf, run };
}
