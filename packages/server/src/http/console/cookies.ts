// The cookie of a session, written and read by hand. Its lifetime is sessionMaxMs in settings/limits/console-sessions.ts.
import type { FastifyRequest } from 'fastify';
import { sessionMaxMs } from '../../settings/limits/console-sessions.ts';
import { isHttps, type Reached } from './request-checks.ts';

/**
 * Cookies ignore ports: the port in the name keeps two services on one machine from replacing each other's cookie. The
 * prefix __Host- keeps other hosts of the domain from setting it. Browsers accept it only with Secure and Path=/.
 */
function nameOf(isSecure: boolean, { port }: Reached): string {
  return `${isSecure ? '__Host-' : ''}rowhouse_console${port === null ? '' : `_${port}`}`;
}

/** For the answer to a sign-in, which always has an Origin. */
export function setCookie(request: FastifyRequest, reached: Reached, value: string): string {
  const isSecure = isHttps(request);
  return [
    `${nameOf(isSecure, reached)}=${value}`,
    isSecure ? 'Path=/; Secure' : 'Path=/console',
    `HttpOnly; SameSite=Strict; Max-Age=${sessionMaxMs / 1000}`,
  ].join('; ');
}

export function clearCookie(request: FastifyRequest, reached: Reached): string {
  return setCookie(request, reached, '').replace(/Max-Age=\d+/, 'Max-Age=0');
}

/** All values: another server on this host can add a cookie with the same name. Over HTTPS, only the protected name counts. */
export function readCookies({ headers }: Pick<FastifyRequest, 'headers'>, reached: Reached): string[] {
  const names = [nameOf(true, reached), ...(reached.isLoopback ? [nameOf(false, reached)] : [])];
  return (headers.cookie ?? '').split(';').flatMap((pair) => {
    const at = pair.indexOf('=');
    return names.includes(pair.slice(0, at).trim()) ? [pair.slice(at + 1).trim()] : [];
  });
}
