// The host that a request names. A page whose own name suddenly leads to this machine (DNS rebinding) sends that name.
const form = /^(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::(\d{1,5}))?$/i;

/** `name` is empty if the header is not a host. */
export function readHost(header: string | undefined): { host: string; name: string; port: string | null } {
  const host = (header ?? '').toLowerCase();
  const [, name = '', port = null] = form.exec(host) ?? [];
  return { host, name, port };
}

export function isHost(header: string): boolean {
  return form.test(header);
}
