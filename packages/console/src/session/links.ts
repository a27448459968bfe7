// Codes behind the # of an address: a link that signs in, an invitation, a new password, a new email address. No server gets
// to see them.
export const linkKinds = ['link', 'invitation', 'recovery', 'email'] as const;
export type LinkKind = (typeof linkKinds)[number];
export type AddressLink = { kind: LinkKind; code: string };

export function linkIn(hash: string): AddressLink | null {
  const params = new URLSearchParams(hash.replace(/^#/, ''));
  for (const kind of linkKinds) {
    const code = params.get(kind);
    if (code) return { kind, code };
  }
  return null;
}

/** The code leaves the address at once, so that it is in no history and no screenshot. */
export function takeLink(): AddressLink | null {
  const link = linkIn(location.hash);
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search);
  return link;
}
