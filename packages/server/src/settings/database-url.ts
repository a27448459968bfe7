// Addresses of PostgreSQL servers: one URL with one host, or with several that replicate from each other. URL itself does
// not read a list of hosts.

/** Each host costs a connection that is kept open, in each process. */
const maxHosts = 8;

/** The same URL with each of its hosts in turn. null: not an address of a PostgreSQL server. */
export function splitHosts(text: string): readonly URL[] | null {
  const [, scheme, credentials, hosts, rest] =
    /^(postgres(?:ql)?:\/\/)([^/?#]*@)([^/?#@]+)(.*)$/is.exec(text) ?? [];
  if (scheme === undefined || hosts === undefined) return null;
  const urls = hosts.split(',').map((host) => readUrl(`${scheme}${credentials}${host}${rest}`));
  const found = urls.flatMap((url) => url ?? []);
  const isDistinct = new Set(found.map(({ host }) => host)).size === urls.length;
  return isDistinct && urls.length <= maxHosts ? found : null;
}

function readUrl(text: string): URL | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const canDecode = [url.username, url.password, url.pathname, url.hostname].every((part) => {
    try {
      decodeURIComponent(part);
      return true;
    } catch {
      // A stray %.
      return false;
    }
  });
  return canDecode && url.hostname !== '' && url.username !== '' ? url : null;
}
