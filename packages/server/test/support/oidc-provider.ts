// A real OpenID Connect provider for tests, and a browser that signs in there.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Claims = { email?: string; email_verified?: boolean };
type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export async function startProvider({ redirectUri }: { redirectUri: string }) {
  const people = new Map<string, Claims>();
  let handler: Handler = () => {};
  let isDown = false;
  /** Changes what the token endpoint answers. */
  let onToken: ((body: Record<string, string>) => Record<string, string>) | null = null;
  const server = createServer((request, response) => {
    if (isDown) return void response.writeHead(503).end('down');
    if (onToken && request.url?.startsWith('/token')) changeAnswer(response, onToken);
    handler(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // The package has no types.
  const { default: Provider } = await import('oidc-provider' as string);
  const client = { clientId: 'rowhouse', clientSecret: 'a secret of the client' };
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: client.clientId,
        client_secret: client.clientSecret,
        redirect_uris: [redirectUri],
        response_types: ['code'],
        grant_types: ['authorization_code'],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    cookies: { keys: ['a key of the provider'] },
    findAccount: (_context: unknown, sub: string) => ({
      accountId: sub,
      claims: () => ({ sub, ...people.get(sub) }),
    }),
  });
  handler = provider.callback();
  return {
    issuer,
    people,
    config: { issuer, ...client, name: 'Example Login', domains: ['company.example'] },
    setDown: (down: boolean) => {
      isDown = down;
    },
    setOnToken: (change: typeof onToken) => {
      onToken = change;
    },
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function changeAnswer(response: ServerResponse, change: (body: Record<string, string>) => object): void {
  const end = response.end.bind(response);
  response.end = ((body: Buffer | string) => {
    const changed = JSON.stringify(change(JSON.parse(String(body))));
    response.setHeader('content-length', Buffer.byteLength(changed));
    return end(changed);
  }) as typeof response.end;
}

/** Signs in at the provider as `sub`. Returns the query with which the browser comes back. */
export async function signInAt(url: string, sub: string): Promise<string> {
  const cookies = new Map<string, string>();
  const { origin } = new URL(url);
  let next: { url: string; form?: string } = { url };
  for (let step = 0; step < 15; step++) {
    const response = await fetch(next.url, {
      redirect: 'manual',
      headers: {
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        ...(next.form && { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(next.form && { method: 'POST', body: next.form }),
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      cookies.set(name, value);
    }
    const to = response.headers.get('location');
    const text = await response.text();
    if (to !== null) {
      const target = new URL(to, next.url);
      if (target.origin !== origin) return target.search;
      next = { url: target.href };
      continue;
    }
    const [, action] = /<form[^>]*action="([^"]+)"/.exec(text) ?? [];
    const [, prompt] = /name="prompt" value="([^"]+)"/.exec(text) ?? [];
    if (!action || !prompt)
      throw new Error(`The provider answered ${response.status}: ${text.slice(0, 300)}`);
    const fields = { prompt, ...(prompt === 'login' && { login: sub, password: 'any' }) };
    next = { url: new URL(action, next.url).href, form: new URLSearchParams(fields).toString() };
  }
  throw new Error('The provider did not send the browser back.');
}
