// Runs the programs in docs/compatibility.md. They must print what the comment after each console.log says.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { neon, neonConfig } from '@neondatabase/serverless';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { folder, notes, useLiveService } from './service.mjs';

/** Asynchronous, because the service that must answer runs in this process. */
const run = promisify(execFile);
const live = useLiveService();
const page = readFileSync(path.join(folder, '../docs/compatibility.md'), 'utf8');
const programs = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, program]) => program);
/** Inside node_modules, so that imports of packages resolve. */
const programFolder = mkdtempSync(path.join(folder, 'node_modules', 'docs-'));
afterAll(() => rmSync(programFolder, { recursive: true, force: true }));

let url;
beforeAll(async () => {
  url = (await live.project('Docs')).url;
  neonConfig.fetchEndpoint = live.endpoint;
  await neon(url).query(notes);
});

it('docs/compatibility.md contains four programs', () => expect(programs.length).toBe(4));

it.each(programs.map((program) => [program.split('\n')[0], program]))(
  'prints what its comments say: %s',
  async (_name, program) => {
    const file = path.join(programFolder, 'program.mjs');
    writeFileSync(file, program.replace('http://127.0.0.1:8765/sql', live.endpoint));
    const env = { ...process.env, DATABASE_URL: url };
    const { stdout, stderr } = await run(process.execPath, [file], { env });
    const printed = [...program.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map(([, output]) => output);
    expect(stdout.trim().split('\n'), stderr).toEqual(printed);
  },
);
