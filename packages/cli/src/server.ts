// Finds the service's programs by path. The command line runs them as processes and imports none of their code.
import { createRequire } from 'node:module';
import { failure } from './failure.ts';

export function findProgram(name: 'main' | 'doctor' | 'master-key' | 'restore' | 'adopt' | 'mcp'): string {
  try {
    return createRequire(import.meta.url).resolve(`@rowhouse/server/${name}`);
  } catch {
    throw failure(
      'not_installed',
      'The service is not installed or not compiled.',
      'In a checkout, run npm run build. Elsewhere, reinstall the package rowhouse.',
    );
  }
}
