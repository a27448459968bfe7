// The service's own programs. They are found by path and run as processes; nothing of them is imported.
import { createRequire } from 'node:module';
import { failure } from './failure.ts';

export function findProgram(name: 'main' | 'doctor'): string {
  try {
    return createRequire(import.meta.url).resolve(`@rowhouse/server/${name}`);
  } catch {
    throw failure(
      'not_installed',
      'The service itself is not installed or not compiled.',
      'In a checkout: run npm run build. Elsewhere: install the package rowhouse again.',
    );
  }
}
