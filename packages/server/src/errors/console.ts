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
      'Keys and connection strings are shown only shortly after the API key was entered.',
      { hint: 'Enter the API key again: POST /console/session/confirm.' },
    ),
  consoleSessionNotFound: () =>
    new RowhouseError('session_not_found', 'This session does not exist, or it has ended.', {
      hint: 'List the sessions with GET /console/sessions.',
    }),
  invalidLink: () =>
    new RowhouseError('invalid_code', 'This link is invalid, already used, or expired.', {
      hint: 'Sign in with an API key, or restart the service: it prints a new link.',
    }),
};
