#!/usr/bin/env node
// The `rowhouse` command as npm links it: loads the compiled program, or explains why it cannot.
import { existsSync } from 'node:fs';

const program = new URL('../dist/main.js', import.meta.url);

if (existsSync(program)) {
  await import(program.href).catch((error) => {
    console.error(`Rowhouse cannot be loaded: ${error.message}`);
    console.error(
      `→ It needs Node.js 20.19 or newer (this is ${process.versions.node}) and the packages that npm ci installs.`,
    );
    process.exitCode = 1;
  });
} else {
  console.error('Rowhouse is not compiled yet. Run npm run build.');
  process.exitCode = 1;
}
