// A link that a person passes on to somebody else. It is shown once.
import { linkToSend } from './link-to-send.ts';
import { Secret } from './secret-dialog.tsx';

export function SharedLink({ note, link }: { note: string; link: string }) {
  const { href, isOnlyHere } = linkToSend(link, location);
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
