// Errors of the console: its hosts, its requests, its sessions.
import { clip, RowhouseError } from './rowhouse-error.ts';

export const consoleErrors = {
  consoleHostRefused: (host: string) =>
    new RowhouseError('forbidden', `The console cannot be used under the host "${clip(host)}".`, {
      hint: 'Open it as http://127.0.0.1 on the machine of the service, or add the host to ROWHOUSE_CONSOLE_HOSTS.',
    }),
  consoleNeedsHttps: () =>
    new RowhouseError('forbidden', 'Other machines can use the console only through HTTPS.', {
      hint: 'Put a proxy with a certificate in front of the service, or forward the port with ssh -L.',
    }),
  /** Another site sent the request, or it does not come from a page. */
  notFromConsole: (problem: string) =>
    new RowhouseError('forbidden', `This request does not come from the page of the console: ${problem}.`, {
      hint: 'Programs use the API under /api/dbaas/v2 with an API key. A browser must be a current version.',
    }),
  sessionRequired: () =>
    new RowhouseError(
      'session_required',
      'The session of the console is missing, has ended, or has expired.',
      { hint: 'Sign in again at /console/.' },
    ),
  confirmationRequired: () =>
    new RowhouseError(
      'confirmation_required',
      'Keys and connection strings are shown only shortly after the API key or the password was entered.',
      { hint: 'Enter it again: POST /console/session/confirm.' },
    ),
  consoleSessionNotFound: () =>
    new RowhouseError('session_not_found', 'This session does not exist, or it has ended.', {
      hint: 'List the sessions with GET /console/sessions.',
    }),
  invalidInvitation: () =>
    new RowhouseError('invalid_code', 'This invitation is invalid, already used, withdrawn, or expired.', {
      hint: 'Ask an owner or an admin of the account for another one.',
    }),
  invalidRecovery: () =>
    new RowhouseError('invalid_code', 'This link is invalid, already used, or expired.', {
      hint: 'Ask for another one.',
    }),
  noMail: () =>
    new RowhouseError('conflict', 'This installation cannot send mail.', {
      hint: 'Ask the operator for a link: rowhouse people recover <email>. Or set ROWHOUSE_SMTP_URL.',
      details: { retryable: false },
    }),
  personExists: () =>
    new RowhouseError('conflict', 'A person with this email address already exists.', {
      hint: 'Enter the current password of this address.',
      details: { retryable: false },
    }),
  wrongPersonPassword: () =>
    new RowhouseError('invalid_credentials', 'The email address or the password is wrong.', {
      hint: 'Passwords are case-sensitive.',
    }),
  noAccount: () =>
    new RowhouseError('forbidden', 'You belong to no account.', {
      hint: 'Ask an owner or an admin of an account for an invitation.',
    }),
  memberNotFound: (id: string) =>
    new RowhouseError('member_not_found', `The account has no member or invitation "${clip(id)}".`, {
      hint: 'List the members with GET /api/dbaas/v2/account/members.',
    }),
  invitedOther: (invited: string, own: string) =>
    new RowhouseError(
      'forbidden',
      `This invitation is for ${clip(invited)}, but you are signed in as ${clip(own)}.`,
      {
        hint: 'Sign out, and open the link again. Or ask for an invitation to your own address.',
      },
    ),
  personNotFound: (email: string) =>
    new RowhouseError('member_not_found', `Nobody has the email address "${clip(email)}".`, {
      hint: 'Check the address, or invite the person: rowhouse members invite <email> --role <role>.',
    }),
  /** `proof`: what was proved already, for the request with the code. */
  factorMissing: (proof?: string) =>
    new RowhouseError('second_factor_required', 'The code of the second factor is missing.', {
      hint: 'Send the code of your authenticator app, or a recovery code, as "code".',
      ...(proof !== undefined && { details: { proof } }),
    }),
  factorUnproved: () =>
    new RowhouseError(
      'second_factor_required',
      'You have a second factor, and this session has not proved it.',
      {
        hint: 'Use your passkey: POST /console/session/confirm, or sign in again with it. If the passkey is lost, ask the operator for a new password that resets the second factor.',
      },
    ),
  wrongFactor: () =>
    new RowhouseError('invalid_credentials', 'The code of the second factor is wrong or already used.', {
      hint: 'Wait for the next code of your authenticator app, or use a recovery code.',
    }),
  noPasskeys: () =>
    new RowhouseError('conflict', 'Passkeys cannot be used here: the console has no host name.', {
      hint: 'The operator sets ROWHOUSE_CONSOLE_HOSTS to a host name, not an address.',
      details: { retryable: false },
    }),
  invalidPasskey: () =>
    new RowhouseError('invalid_credentials', 'This passkey was not accepted.', {
      hint: 'Try again. Or sign in another way, and add the passkey again in your profile.',
    }),
  passkeyNotFound: () =>
    new RowhouseError('key_not_found', 'You have no such passkey.', {
      hint: 'List them with GET /console/person/passkeys.',
    }),
  personNotConfirmed: () =>
    new RowhouseError(
      'confirmation_required',
      'Ways to sign in are changed only shortly after you have proved who you are.',
      { hint: 'Enter your password or use a passkey again: POST /console/session/confirm.' },
    ),
  noProvider: () =>
    new RowhouseError('conflict', 'No provider is configured.', {
      hint: 'Sign in with an email address and a password, or the operator sets ROWHOUSE_OIDC_ISSUER.',
      details: { retryable: false },
    }),
  providerUnavailable: (name: string, cause: unknown) =>
    new RowhouseError('unavailable', `${name} does not answer.`, {
      retryAfterS: 5,
      hint: 'Try again later, or sign in another way. The operator finds the reason in the log.',
      cause,
    }),
  invalidProviderAnswer: (name: string, cause?: unknown) =>
    new RowhouseError(
      'invalid_credentials',
      `The sign-in with ${name} was refused, took too long, or began in another tab.`,
      { hint: 'Begin again on the sign-in page.', cause },
    ),
  providerEmailUnverified: (name: string) =>
    new RowhouseError('forbidden', `${name} has not verified your email address.`, {
      hint: `Verify the address there, or sign in another way and connect ${name} in your profile.`,
    }),
  /** A person with this address exists, who has not proved it. */
  providerNotLinked: (name: string) =>
    new RowhouseError('forbidden', `You have not connected ${name} yet.`, {
      hint: `Sign in another way, with your second factor if you have one, and connect ${name} in your profile.`,
    }),
  providerNotInvited: (email: string) =>
    new RowhouseError('forbidden', `Nobody has invited ${clip(email)}.`, {
      hint: 'Ask an owner or an admin of an account for an invitation.',
    }),
  identityTaken: () =>
    new RowhouseError('conflict', 'Another person already signs in with this identity.', {
      hint: 'Sign in with it, and disconnect it in that profile.',
      details: { retryable: false },
    }),
  secondFactorRequired: () =>
    new RowhouseError('second_factor_required', 'This account requires a second factor.', {
      hint: 'Set one up in your profile, then sign in again with it.',
    }),
  invalidLink: () =>
    new RowhouseError('invalid_code', 'This link is invalid, already used, or expired.', {
      hint: 'Sign in with an API key, or restart the service: it prints a new link.',
    }),
};
