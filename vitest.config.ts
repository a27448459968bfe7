// Which tests run together. A file's name says how it is run:
//   x.test.ts             in the ordinary run
//   x.long.test.ts        only when everything is run, or when it is named: crashes, floods, other programs, most of the browser tests
//   x.alone.test.ts       after the others and one at a time, because it measures time or uses up what all share
//   x.long.alone.test.ts  both
// A single test with the tag `long` is left out of the ordinary run like a file `x.long.test.ts`.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const folders = ['packages/*/src/**', 'packages/*/test/**', 'scripts', 'bench', 'compatibility'];
const files = (suffix: string) => folders.map((folder) => `${folder}/*${suffix}.test.{ts,mjs}`);

type Run = {
  include: string[];
  exclude?: string[];
  isolate?: boolean;
  maxWorkers: number;
  groupOrder: number;
};

// A file alone uses three quarters of a core, the PostgreSQL behind it included: three keep two cores busy.
const together = { maxWorkers: Number(process.env.TEST_WORKERS ?? 3), groupOrder: 0 };
const oneAtATime = { maxWorkers: 1, groupOrder: 1 };

const runs: Record<string, Run> = {
  // The files of a worker share the modules, or loading the service again for each would take a fifth of the time.
  ordinary: {
    include: files(''),
    exclude: [...files('.long'), ...files('.alone')],
    isolate: false,
    ...together,
  },
  long: { include: files('.long'), ...together },
  alone: { include: files('.alone'), exclude: files('.long.alone'), ...oneAtATime },
  'long alone': { include: files('.long.alone'), ...oneAtATime },
};

/** Files that take minutes although they are short. Vitest starts with the largest file; at the end nothing runs beside these. */
const slowest = ['first-visit.test.ts', 'row-security.test.ts', 'docs-sessions.test.ts', 'files.test.ts'];

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isSlow = ({ moduleId }: TestSpecification) => slowest.some((name) => moduleId.endsWith(`/${name}`));
    return [...sorted.filter(isSlow), ...sorted.filter((file) => !isSlow(file))];
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: SlowestFirst },
    // Here and not in the projects: one PostgreSQL serves all of them.
    globalSetup: 'packages/server/test/global-setup.ts',
    teardownTimeout: 60_000,
    tags: [{ name: 'long', description: 'Only when everything is run, or when its file or name is given' }],
    projects: Object.entries(runs).map(([name, { groupOrder, ...run }]) => ({
      resolve: {
        alias: {
          '@rowhouse/api/settings': fileURLToPath(new URL('packages/api/src/settings.ts', import.meta.url)),
          '@rowhouse/api/statements': fileURLToPath(
            new URL('packages/api/src/statements.ts', import.meta.url),
          ),
          '@rowhouse/api': fileURLToPath(new URL('packages/api/src/index.ts', import.meta.url)),
        },
      },
      test: {
        name,
        ...run,
        sequence: { groupOrder },
        pool: 'forks' as const,
        testTimeout: 300_000,
        hookTimeout: 240_000,
      },
    })),
  },
});
