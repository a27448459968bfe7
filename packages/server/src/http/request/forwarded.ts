// Whether a proxy passed a request on: then the connection says nothing about who sent it.
import type { IncomingHttpHeaders } from 'node:http';

/** Proxies add at least one of these. */
const added = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

export function isForwarded(headers: IncomingHttpHeaders): boolean {
  return added.some((name) => headers[name] !== undefined);
}
