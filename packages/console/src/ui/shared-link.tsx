// A link that a person passes on to somebody else. It is shown once.
import { Secret } from './secret-dialog.tsx';

/** As it is to be sent: where the service does not know its public name, the address of this page may have it. */
export function linkToSend(link: string, page: Pick<Location, 'origin' | 'hostname'> = location) {
  const url = new URL(link, page.origin);
  if (isLoopback(url.hostname) && !isLoopback(page.hostname))
    return { href: `${page.origin}${url.pathname}${url.search}${url.hash}`, isOnlyHere: false };
  return { href: url.href, isOnlyHere: isLoopback(url.hostname) };
}

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host);

export function SharedLink({ note, link }: { note: string; link: string }) {
  const { href, isOnlyHere } = linkToSend(link);
  return (
    <>
      <Secret note={note} label="Link" text={href} />
      {isOnlyHere ? (
        <p className="note note-warn">
          This link works only on the machine of the service, which does not know its public name. Set
          ROWHOUSE_CONSOLE_HOSTS to that name, restart the service, and make a new link.
        </p>
      ) : null}
    </>
  );
}
