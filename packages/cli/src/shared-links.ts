// Links that a person passes on to somebody else, such as an invitation.
import { note, type OutputOptions } from './output.ts';

/** Says so if the link leads nowhere on the machine of the other person. */
export function warnOfLink(options: OutputOptions, link: string | null | undefined): void {
  if (!link || !isOnlyHere(link)) return;
  note(
    options,
    'This link works only on the machine of the service, which does not know its public name. Set ROWHOUSE_CONSOLE_HOSTS to that name, restart the service, and make a new link.',
  );
}

/** Also of a path: the service knows no address at all. */
export function isOnlyHere(link: string): boolean {
  if (!URL.canParse(link)) return true;
  const { hostname } = new URL(link);
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}
