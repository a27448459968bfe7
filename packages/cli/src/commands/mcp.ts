// rowhouse mcp: tools for an agent over stdin and stdout. The agent starts it; people only see it in its configuration.
import { spawn } from 'node:child_process';
import path from 'node:path';
import type { Command } from 'commander';
import { type ApiOptions, readKey, readUrl, withApiOptions } from '../api.ts';
import { failure } from '../failure.ts';
import { findProgram } from '../server.ts';

export function addMcp(program: Command): void {
  const command = program
    .command('mcp')
    .summary('serve tools for an agent over stdin and stdout (MCP)')
    .description(
      'Serve the tools of Rowhouse to an agent by the Model Context Protocol, over stdin and stdout. They use the API of a ' +
        'running service with the key. docs/mcp.md shows the configuration of common agents.',
    );
  withApiOptions(command)
    .option('--read-only', 'leave out the tools that write, whatever the key allows')
    .action(mcp);
}

async function mcp(options: ApiOptions & { readOnly?: boolean }): Promise<void> {
  const child = spawn(process.execPath, [findProgram('mcp')], {
    stdio: 'inherit',
    env: {
      ...process.env,
      ROWHOUSE_URL: readUrl(options.url),
      ROWHOUSE_API_KEY: readKey(options.key),
      ROWHOUSE_MCP_READ_ONLY: String(options.readOnly === true),
      ...(options.ca !== undefined && { NODE_EXTRA_CA_CERTS: path.resolve(options.ca) }),
    },
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  process.exitCode = await new Promise<number>((resolve, reject) => {
    child.once('error', ({ message }) => reject(failure('not_started', `MCP could not start: ${message}`)));
    child.once('exit', (status) => resolve(status ?? 0));
  });
}
