// The exit status of a failed command. docs/cli.md lists them.
import { CommanderError } from 'commander';
import { Failure } from './failure.ts';

const failed = 1;
const wrongUsage = 2;
const noAnswer = 3;
const noAccess = 4;

const byCode: Readonly<Record<string, number>> = {
  missing_project: wrongUsage,
  ambiguous_project: wrongUsage,
  profile_not_found: wrongUsage,
  no_answer: noAnswer,
  not_rowhouse: noAnswer,
  redirected: noAnswer,
  unavailable: noAnswer,
  overloaded: noAnswer,
  rate_limited: noAnswer,
  missing_api_key: noAccess,
  invalid_api_key: noAccess,
  forbidden: noAccess,
};

export function exitStatusOf(thrown: unknown): number {
  // Help and the version end with 0.
  if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : wrongUsage;
  return thrown instanceof Failure ? (byCode[thrown.body.error.code] ?? failed) : failed;
}
