// How the console is built: hashed files below /console/, compressed at build time, without inline code.
import { defineConfig } from 'vite';
import { compressFiles } from './build/compress.ts';
import { devSession } from './build/dev-session.ts';

export default defineConfig({
  base: '/console/',
  logLevel: 'warn',
  plugins: [devSession(), compressFiles()],
  build: {
    target: ['chrome125', 'firefox128', 'safari17.5'],
    // The content security policy allows no data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Libraries mark their files for servers that render React; here the mark has no meaning.
    rolldownOptions: { checks: { moduleLevelDirective: false, pluginTimings: false } },
  },
});
