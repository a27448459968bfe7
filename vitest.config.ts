import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: {
    alias: {
      '@rowhouse/api/settings': fileURLToPath(new URL('packages/api/src/settings.ts', import.meta.url)),
      '@rowhouse/api': fileURLToPath(new URL('packages/api/src/index.ts', import.meta.url)),
    },
  },
  test: {
    include: [
      'packages/*/src/**/*.test.ts',
      'packages/*/test/**/*.test.ts',
      'scripts/*.test.mjs',
      'bench/*.test.mjs',
      'compatibility/*.test.mjs',
    ],
    globalSetup: 'packages/server/test/global-setup.ts',
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 240_000,
    teardownTimeout: 60_000,
  },
});
