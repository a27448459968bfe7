// npm start: prepares a fresh clone, then runs `rowhouse start` in the same process.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, setup } from './setup.mjs';

setup({ client: false });
const command = path.join(root, 'packages', 'cli', 'bin', 'rowhouse.mjs');
process.argv.splice(1, process.argv.length, command, 'start', ...process.argv.slice(2));
await import(pathToFileURL(command).href);
