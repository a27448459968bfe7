// For `vite` and `vite preview` only: signs every visitor in with the key of ROWHOUSE_DEV_KEY and passes requests on to the
// service at ROWHOUSE_DEV_URL. No build contains it. The content security policy is that of the service, so that a
// preview shows violations.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { request } from 'node:http';
import type { Connect, Plugin } from 'vite';

const policy =
  "default-src 'self'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

export function devSession(): Plugin {
  const key = process.env.ROWHOUSE_DEV_KEY ?? '';
  const target = new URL(process.env.ROWHOUSE_DEV_URL ?? 'http://127.0.0.1:8765');
  const handle: Connect.NextHandleFunction = (req, res, next) => {
    const url = req.url ?? '';
    if (key === '') return next();
    if (url.startsWith('/console/api/') || url === '/readyz') return passOn(req, res, target, key);
    if (url.startsWith('/console/session')) return answerSession(req, res);
    next();
  };
  return {
    name: 'rowhouse-dev-session',
    configureServer: (server) => {
      server.middlewares.use(handle);
    },
    configurePreviewServer: (server) => {
      server.middlewares.use((_req, res, next) => {
        res.setHeader('content-security-policy', policy);
        next();
      });
      server.middlewares.use(handle);
    },
  };
}

function passOn(req: IncomingMessage, res: ServerResponse, target: URL, key: string) {
  const headers = { ...req.headers, host: target.host, 'x-api-key': key };
  const path = (req.url ?? '').replace('/console/api', '/api');
  const { hostname, port } = target;
  const upstream = request({ hostname, port, path, method: req.method, headers }, (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(res);
  });
  upstream.on('error', () => res.writeHead(502).end());
  res.on('close', () => upstream.destroy());
  req.pipe(upstream);
}

function answerSession(req: IncomingMessage, res: ServerResponse) {
  const expiresAt = new Date(Date.now() + 12 * 3_600_000).toISOString();
  const session = {
    ok: true,
    id: 'dev',
    person: null,
    role: 'owner',
    is_operator: true,
    sees_all_projects: true,
    lacks_second_factor: false,
    suspended_because: null,
    account: { id: 'dev', name: 'default' },
    scope: 'account',
    project: null,
    scopes: null,
    confirmed_until: null,
    expires_at: expiresAt,
  };
  const body =
    req.url === '/console/sessions'
      ? { ok: true, sessions: [] }
      : req.method === 'POST'
        ? { ...session, token: 'development' }
        : session;
  req.resume();
  res.writeHead(req.method === 'POST' ? 201 : 200, { 'content-type': 'application/json' });
  res.end(JSON.stringify(body));
}
