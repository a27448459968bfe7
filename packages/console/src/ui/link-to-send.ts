// The address of a link that a person passes on to somebody else.

/** Where the service does not know its public name, the address of this page may have it. */
export function linkToSend(link: string, page: Pick<Location, 'origin' | 'hostname'>) {
  const url = new URL(link, page.origin);
  if (isLoopback(url.hostname) && !isLoopback(page.hostname))
    return { href: `${page.origin}${url.pathname}${url.search}${url.hash}`, isOnlyHere: false };
  return { href: url.href, isOnlyHere: isLoopback(url.hostname) };
}

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host);
