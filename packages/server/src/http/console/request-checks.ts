// Which requests count as those of the console's page. None of the checks relies on the session: they hold for signing in too.
import type { IncomingHttpHeaders } from 'node:http';
import { errors } from '../../errors/errors.ts';
import { isLoopback } from '../../lib/networks.ts';
import { readHost } from '../request/host.ts';

type Received = Readonly<{ method: string; headers: IncomingHttpHeaders }>;

/** The host by which the browser reached the service. */
export type Reached = Readonly<{ host: string; isLoopback: boolean; port: string | null }>;

/**
 * Against DNS rebinding: a page whose own name suddenly leads to this machine sends that name. X-Forwarded-Host does not
 * count: such a page can send it, and not every proxy removes it.
 */
export function checkHost(header: string | undefined, allowed: readonly string[]): Reached {
  const { host, name, port } = readHost(header);
  const isHere = isLoopback(name);
  if (name === '' || !(isHere || allowed.includes(name) || allowed.includes(host)))
    throw errors.consoleHostRefused(host);
  return { host, isLoopback: isHere, port };
}

/**
 * Only a script of the console's own origin can send such a request. Browsers set these headers and let no page change
 * them. They send Sec-Fetch-… only to HTTPS and to loopback, so that over plain HTTP from other machines nothing works,
 * not even with a wrong configuration. None of them comes twice (http/fast/request-form.ts).
 */
export function checkFetch({ method, headers }: Received, reached: Reached): void {
  const { origin } = headers;
  if (origin !== undefined && !isOwn(origin, reached)) {
    throw isPlain(origin, reached)
      ? errors.consoleNeedsHttps()
      : errors.notFromConsole('its Origin is not the one of the console');
  }
  if (headers['sec-fetch-site'] === undefined && !reached.isLoopback) throw errors.consoleNeedsHttps();
  if (headers['sec-fetch-site'] !== 'same-origin')
    throw errors.notFromConsole('Sec-Fetch-Site is not same-origin');
  // A navigation, a frame, an image or a script of the page itself cannot have sent the token.
  if (headers['sec-fetch-dest'] !== 'empty') throw errors.notFromConsole('Sec-Fetch-Dest is not empty');
  if (origin === undefined && method !== 'GET' && method !== 'HEAD')
    throw errors.notFromConsole('it has no Origin');
}

/** Whether the browser uses HTTPS. It says so itself; a client that lies gets a cookie that it would not have to send. */
export function isHttps({ headers }: Pick<Received, 'headers'>): boolean {
  return headers.origin?.startsWith('https://') ?? false;
}

/** A proxy may end TLS, so that the service does not see the scheme. It is HTTPS, or this machine itself. */
function isOwn(origin: string, reached: Reached): boolean {
  return isSame(origin, 'https', reached) || (reached.isLoopback && isPlain(origin, reached));
}

function isPlain(origin: string, reached: Reached): boolean {
  return isSame(origin, 'http', reached);
}

function isSame(origin: string, scheme: 'http' | 'https', { host }: Reached): boolean {
  const own = `${scheme}://${host}`;
  return URL.canParse(own) && new URL(own).origin === origin;
}
