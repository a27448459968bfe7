// rowhouse people: a new password for a person, for operators.
import type { RecoveryLinkResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions } from '../api.ts';
import { show } from '../output.ts';
import { warnOfLink } from '../shared-links.ts';
import { formatFields } from '../table.ts';

export function addPeople(program: Command): void {
  const people = program
    .command('people')
    .summary('help people who cannot sign in to the console')
    .description('Help people who cannot sign in to the console. Needs an operator key.');
  withApiOptions(
    people
      .command('recover <email>')
      .description('Print a link that sets a new password, once, within a day. Give it only to that person.'),
  )
    .option(
      '--reset-second-factor',
      'also remove the authenticator app and the passkeys, and disconnect the other provider',
    )
    .action(recover);
}

async function recover(email: string, options: ApiOptions & { resetSecondFactor?: boolean }): Promise<void> {
  const body = { email, ...(options.resetSecondFactor && { reset_second_factor: true }) };
  const answer = await callApi<RecoveryLinkResponse>(options, 'POST', ['people', 'recovery'], { body });
  show(options, answer, ({ email: known, link, expires_at: until }) =>
    formatFields([
      ['email', known],
      ['until', until],
      ['link', link],
    ]),
  );
  warnOfLink(options, answer.link);
}
