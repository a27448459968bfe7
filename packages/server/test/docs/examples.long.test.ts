// The examples, run as a user would: the commands of each README, whose output is what the README shows.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { asPattern, runConsole } from '../support/console-sessions.ts';
import { launch, newAccountKey, newDataFolder, type Running } from '../support/process.ts';
import {
  buildTimeoutMs,
  environment,
  examples,
  pythonWithClient,
  root,
  skipReason,
} from '../support/toolchains.ts';

const slug = 'my-shop';
const python = mkdtempSync(path.join(inject('sharedFolder'), 'python-'));
afterAll(() => rmSync(python, { recursive: true, force: true }));
let service: Running;
let projectKey: string;

beforeAll(async () => {
  service = await launch({
    ROWHOUSE_DATA: newDataFolder(),
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_PASSWORD_ITERATIONS: '100000',
  });
  const { status, body } = await service.call('POST', '/projects', { body: { name: 'My Shop', slug } });
  expect(status, JSON.stringify(body)).toBe(201);
  projectKey = body.api_key;
});

it('there is an example in every promised language', () => {
  expect(examples).toEqual(expect.arrayContaining(['curl', 'go', 'python', 'rust', 'typescript']));
});

for (const example of examples) {
  const without = `examples/${example} was not run`;
  const env =
    example === 'python'
      ? await pythonWithClient(python, without)
      : skipReason(example, without) === null && environment;

  describe.skipIf(!env)(`examples/${example}`, { timeout: buildTimeoutMs }, () => {
    const folder = path.join(root, 'examples', example);
    const readme = readFileSync(path.join(folder, 'README.md'), 'utf8');
    const run = (settings: { url?: string; key?: string } = {}) =>
      runConsole(
        readme,
        (command) =>
          command
            .replace('http://127.0.0.1:8765', settings.url ?? service.url)
            .replace('rh_proj_…', settings.key ?? projectKey),
        { cwd: folder, env: env || {} },
      );

    // Apart from the run, so that what a compiler or a download says is not taken for the program's words.
    if (example === 'rust')
      beforeAll(async () => {
        await promisify(execFile)('cargo', ['build'], { cwd: folder, env: environment });
      }, buildTimeoutMs);
    if (example === 'typescript')
      beforeAll(async () => {
        const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
        await promisify(execFile)(process.execPath, [tsc], { cwd: folder, env: environment });
      }, buildTimeoutMs);

    it('prints the output that its README shows, also the second time', async () => {
      for (const _ of ['first', 'second']) {
        const { ran, problems } = await run();
        expect(problems).toBe('');
        for (const { command, shown, output } of ran) expect(output, command).toMatch(asPattern(shown));
        expect(ran.at(-1)?.output).toMatch(/\ndone$/);
      }
    });

    it('leaves two users with their rows', async () => {
      const users = await service.call('GET', `/projects/${slug}/auth/users?search=ada%2B${example}-`);
      expect(users.body.users).toHaveLength(2);
      for (const { id, role, data } of users.body.users) {
        expect({ role, data }).toEqual({ role: 'authenticated', data: { name: 'Ada' } });
        const statement = `select count(*)::int as teas, sum(price)::text as price, max(barcode)::text as barcode
          from example_teas where user_id = $1`;
        const body = { query: statement, params: [id] };
        const { body: result } = await service.call('POST', `/projects/${slug}/query`, { body });
        expect(result.rows).toEqual([{ teas: 5, price: '51.79', barcode: '9007199254740993' }]);
      }
    });

    it('reports missing settings', async () => {
      const [, command = ''] = readme.match(/^\$ (?!export )(.*)$/m) ?? [];
      const bare = `\`\`\`console\n$ ${command}\n\`\`\``;
      const { ran, problems, status } = await runConsole(bare, (line) => `${line} || exit 1`, {
        cwd: folder,
        env: { ...env, ROWHOUSE_PROJECT: slug },
      });
      expect(problems).toMatch(/set.* ROWHOUSE_URL,? ROWHOUSE_API_KEY/);
      expect(problems).not.toContain('ROWHOUSE_PROJECT');
      expect({ output: ran[0]?.output, status }).toEqual({ output: '', status: 1 });
    });

    it('explains in one line that the key is wrong or the service is down', async () => {
      const wrongKey = await run({ key: 'rh_proj_nonsense' });
      expect(wrongKey.problems).toContain('invalid_api_key: ');
      const away = await run({ url: 'http://127.0.0.1:1' });
      expect(away.problems).toMatch(/no answer from the service: /);
      for (const { ran, problems } of [wrongKey, away]) {
        expect(ran.at(-1)?.output).toBe('');
        // `go run` adds a line with the status.
        expect(
          problems
            .replace(/exit status 1\n$/, '')
            .trim()
            .split('\n'),
        ).toHaveLength(1);
      }
    });
  });
}
