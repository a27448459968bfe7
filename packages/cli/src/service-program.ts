// Runs a program of the service that reports lines of JSON: its progress, then its answer.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Failure, type FailureBody, failure } from './failure.ts';
import { type OutputOptions, progressOf } from './output.ts';
import { findProgram } from './server.ts';

export async function runProgram<T extends { ok: true }>(
  name: 'restore' | 'adopt',
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  options: OutputOptions,
  about: string,
): Promise<T> {
  const child = spawn(process.execPath, [findProgram(name), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env,
  });
  const started = new Promise<never>((_, reject) => child.once('error', reject));
  const tell = progressOf(options);
  const read = async (): Promise<T | FailureBody | null> => {
    for await (const line of createInterface({ input: child.stdout })) {
      const said = JSON.parse(line) as { progress?: number } | T | FailureBody;
      if ('ok' in said) return said;
      tell(`${about} … ${said.progress} %`);
    }
    return null;
  };
  const answer = await Promise.race([read(), started]).finally(() => tell(null));
  if (!answer) throw failure(`${name}_failed`, 'The command ended without an answer.');
  if (!answer.ok) throw new Failure(answer);
  return answer;
}
