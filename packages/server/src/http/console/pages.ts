// The pages and files of the console over HTTP. They contain nothing secret: links from other sites may lead to them.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors, RowhouseError } from '../../errors/errors.ts';
import type { ConsoleFile, ConsoleFiles } from './files.ts';
import { checkHost } from './request-checks.ts';
import { securityHeaders } from './security-headers.ts';

type Options = { hosts: readonly string[] /** null: not built. */; files: ConsoleFiles | null };
type FileParams = { '*': string };

const forever = 'public, max-age=31536000, immutable';
const unhashed = 'no-cache';

export function consolePages(app: FastifyInstance, { hosts, files }: Options): void {
  const options = { config: { cors: false }, schema: { hide: true } } as const;
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(securityHeaders);
    return refuseOtherHosts(request, reply, hosts);
  });
  app.get('/console', options, async (_request, reply) => reply.redirect('/console/'));
  app.get<{ Params: FileParams }>('/console/assets/*', options, async (request, reply) => {
    const file = files?.get(`assets/${request.params['*']}`);
    // Never the page instead: the answer would be cached for ever as a script.
    if (!file) throw errors.routeNotFound(request.method, request.url.split('?')[0] ?? '');
    return sendFile(request, reply.header('cache-control', forever), file);
  });
  const page = async (request: FastifyRequest<{ Params: Partial<FileParams> }>, reply: FastifyReply) => {
    const index = files?.get('index.html');
    if (!files || !index) return sendNotice(reply, 503, notBuilt);
    const name = request.params['*'] ?? '';
    const file = name === 'index.html' ? undefined : files.get(name);
    if (file) return sendFile(request, reply.header('cache-control', unhashed), file);
    // Every screen has an address. The page itself reads it.
    return sendFile(request, reply, index);
  };
  app.get('/console/', options, page);
  app.get('/console/*', options, page);
}

/** A browser at / wants the console, a program made a mistake. */
export function homeRoute(app: FastifyInstance): void {
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    if (!request.headers.accept?.includes('text/html')) throw errors.routeNotFound(request.method, '/');
    return reply.headers({ vary: 'accept', 'cache-control': 'no-store' }).redirect('/console/');
  });
}

/** For people, a page with the reason. A hook that returns the reply ends the request. */
function refuseOtherHosts(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  hosts: readonly string[],
): FastifyReply | undefined {
  try {
    checkHost(headers.host, hosts);
    return undefined;
  } catch (error) {
    if (!(error instanceof RowhouseError) || !headers.accept?.includes('text/html')) throw error;
    return sendNotice(reply, error.status, [error.message, error.hint ?? '']);
  }
}

function sendFile({ headers }: FastifyRequest, reply: FastifyReply, file: ConsoleFile): FastifyReply {
  reply.headers({ 'content-type': file.type, vary: 'accept-encoding' });
  if (reply.getHeader('cache-control') === unhashed) {
    reply.header('etag', file.etag);
    if (headers['if-none-match'] === file.etag) return reply.status(304).send();
  }
  const accepted = String(headers['accept-encoding'] ?? '');
  if (file.br && accepts(accepted, 'br')) return reply.header('content-encoding', 'br').send(file.br);
  if (file.gzip && accepts(accepted, 'gzip')) return reply.header('content-encoding', 'gzip').send(file.gzip);
  return reply.send(file.plain);
}

function accepts(header: string, encoding: string): boolean {
  return header.split(',').some((entry) => {
    const [name, ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase());
    return name === encoding && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

const notBuilt = [
  'The console has not been built.',
  'In a clone of the repository, run "npm run build" and start the service again. The API works without the console.',
];

/** A page without scripts and styles, for people who cannot get the console. */
function sendNotice(reply: FastifyReply, status: number, lines: readonly string[]): FastifyReply {
  const text = lines.map((line) => `<p>${escapeHtml(line)}</p>`).join('\n');
  const html = `<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Rowhouse</title>\n<h1>Rowhouse</h1>\n${text}\n</html>\n`;
  return reply.status(status).header('content-type', 'text/html; charset=utf-8').send(html);
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
