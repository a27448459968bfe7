// MCP for agents: Streamable HTTP at /mcp. A session has an id, by which a call is cancelled, and no other state. A tool calls
// the routes of the API inside this process, with the key of the request.

import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { apiPrefix } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { errors } from '../../errors/errors.ts';
import { isLoopback, plainAddress } from '../../lib/networks.ts';
import { readAtMost } from '../../mcp/results.ts';
import { openRunningCalls } from '../../mcp/running-calls.ts';
import type { Answer, CallApi } from '../../mcp/server.ts';
import { type ApiRequest, toolNames } from '../../mcp/tools.ts';
import { toJsonText } from '../../query/json/json-text.ts';
import { isLarge } from '../../query/json/large-json.ts';
import { namesOf } from '../../query/json/wide-object.ts';
import { agentBodyBytes, defaultTimeoutMs } from '../../settings/limits/requests.ts';
import type { Deps } from '../deps.ts';
import { identify } from '../request/caller.ts';
import { isForwarded } from '../request/forwarded.ts';
import { readHost } from '../request/host.ts';
import { onResponseEnd } from '../response-end.ts';

type Options = Readonly<{
  /** Pages that may use it from a browser. "*" allows none: others' pages run in browsers that can reach this service. */
  origins: '*' | readonly string[];
  /** Names of the service other than localhost. */
  hosts: readonly string[];
}>;

/** Longer than a statement: its own timeout is the better answer. */
const answerWithinMs = defaultTimeoutMs + 5_000;

const Query = Type.Object(
  {
    read_only: Type.Optional(
      Type.Enum(['true', 'false'], { description: 'true: without the tools that write.' }),
    ),
  },
  { additionalProperties: false },
);

/** In a scope of its own. */
export function mcpRoute(app: FastifyInstance, deps: Deps, options: Options): void {
  // Loaded with the first request: most installations have no agents.
  let opening: Promise<Serve> | undefined;
  const calls = openRunningCalls();
  // Before the body is read, so that an unauthenticated client cannot make the service read one.
  app.addHook('onRequest', async (request) => {
    checkSender(request, options);
    Object.assign(request, await identify(request, deps.keyRing));
  });
  app.post<{ Querystring: { read_only?: 'true' | 'false' }; Body: unknown }>(
    '/mcp',
    {
      bodyLimit: agentBodyBytes,
      config: { notesChanges: true, numbers: 'exact', answerWithinMs },
      schema: { hide: true, querystring: Query },
    },
    async (request, reply) => {
      const { body, headers, query } = request;
      if (typeof body !== 'object' || body === null || Array.isArray(body))
        throw errors.invalidRequest([{ path: '', problem: 'the body must be one JSON-RPC message' }]);
      if ((body as { method?: unknown }).method === 'subscriptions/listen')
        throw errors.invalidRequest([{ path: 'method', problem: 'subscriptions are not supported' }]);
      requireNarrow(body);
      // A request of a tool to the API counts against the rate of the account by itself.
      if (request.caller && !callsApi(body)) deps.rates.require(request.caller);
      opening ??= openMcp(deps.version);
      const serve = await opening;
      const { id, method, params } = body as Message;
      const session = sessionOf(headers);
      const caller = request.caller?.keyId ?? request.operator?.keyId ?? '';
      if (method === 'notifications/cancelled') calls.cancel(caller, session, params?.requestId);
      if (method === 'initialize') reply.header('mcp-session-id', randomUUID());
      const running = calls.add(caller, session, id);
      onResponseEnd(reply.raw, running.stop);
      const call: CallApi = (asked) => callApi(app, request, asked, running.signal);
      try {
        const answer = await serve(headersOf(headers), body, {
          call,
          isReadOnly: query.read_only === 'true',
        });
        for (const [name, value] of answer.headers) if (name !== 'content-length') reply.header(name, value);
        return reply.status(answer.status).send(Buffer.from(await answer.arrayBuffer()));
      } finally {
        running.end();
      }
    },
  );
}

/** No tool has this many arguments, and the library lists and copies all properties several times. */
const maxNames = 1_000;

/** Checks three levels: the message, its parameters and the tool's arguments. Deeper levels are values that the library does not list. */
function requireNarrow(part: object, path = '', depth = 0): void {
  if (!isLarge(part) || Array.isArray(part)) return;
  const names = namesOf(part);
  if (names.length > maxNames)
    throw errors.invalidRequest([
      {
        path,
        problem: `${path === '' ? 'the message has' : 'has'} ${names.length} properties; at most ${maxNames} are allowed`,
      },
    ]);
  if (depth === 2) return;
  for (const name of names) {
    const inner = (part as Record<string, unknown>)[name];
    if (typeof inner === 'object' && inner !== null)
      requireNarrow(inner, path === '' ? name : `${path}.${name}`, depth + 1);
  }
}

type Message = { id?: unknown; method?: unknown; params?: { name?: unknown; requestId?: unknown } };

/** Distinguishes the calls of agents with the same key. A session has no other state. */
function sessionOf({ 'mcp-session-id': given }: IncomingHttpHeaders): string | null {
  return typeof given === 'string' && given.length <= 100 ? given : null;
}

/** Whether the message makes a tool send a request to the API. Arguments that are not valid are refused without one, and cost little. */
function callsApi(message: Message): boolean {
  return message.method === 'tools/call' && toolNames.has(String(message.params?.name));
}

type Use = { call: CallApi; isReadOnly: boolean };
type Serve = (headers: Headers, body: unknown, use: Use) => Promise<Response>;

async function openMcp(version: string): Promise<Serve> {
  const [{ createMcpHandler }, { openMcpServer }] = await Promise.all([
    import('@modelcontextprotocol/server'),
    import('../../mcp/server.ts'),
  ]);
  const handler = createMcpHandler(({ authInfo }) => openMcpServer({ ...(authInfo?.extra as Use), version }));
  return (headers, body, use) =>
    handler.fetch(new Request('http://localhost/mcp', { method: 'POST', headers }), {
      parsedBody: body,
      // The key itself was verified, and does not get to the library.
      authInfo: { token: '', clientId: '', scopes: [], extra: use },
    });
}

/**
 * Against pages in a browser of somebody who can reach the service. A browser names the page that sends a POST. Behind that, a
 * second check against DNS rebinding: who connects from this machine itself calls it by a name of this machine.
 */
function checkSender({ headers, socket }: FastifyRequest, { origins, hosts }: Options): void {
  const { origin, host } = headers;
  const isListed = origin !== undefined && origins !== '*' && origins.includes(origin);
  if ((origin !== undefined || headers['sec-fetch-site'] !== undefined) && !isListed)
    throw errors.forbidden(
      'A page in a browser may not use MCP.',
      'Connect the agent itself, or add the origin of the page to ROWHOUSE_CORS_ORIGINS.',
    );
  if (!isLoopback(plainAddress(socket.remoteAddress)) || isForwarded(headers)) return;
  const { name } = readHost(host);
  if (!isLoopback(name) && !hosts.includes(name))
    throw errors.forbidden(
      'MCP does not know this service by the host name of the request.',
      'Use the address that the service printed, or add the name to ROWHOUSE_CONSOLE_HOSTS.',
    );
}

/** What the library has to see. */
function headersOf(given: IncomingHttpHeaders): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given))
    if (
      typeof value === 'string' &&
      /^(accept|content-type|mcp-[a-z-]+)$/.test(name) &&
      name !== 'mcp-session-id'
    )
      headers.set(name, value);
  return headers;
}

async function callApi(
  app: FastifyInstance,
  { headers, id, ip }: FastifyRequest,
  { method, path, body }: ApiRequest,
  signal: AbortSignal,
): Promise<Answer> {
  const bytes = body && Buffer.from(toJsonText(body));
  // Not destroyed at its end: if it breaks later, the request breaks as if the client had gone, and the statement is cancelled.
  const payload = new Readable({
    autoDestroy: false,
    read() {
      if (bytes) this.push(bytes);
      this.push(null);
    },
  });
  const breakOff = () => void payload.destroy(new Error('The agent no longer waits.'));
  if (signal.aborted) return cancelled;
  signal.addEventListener('abort', breakOff);
  try {
    const response = await app.inject({
      method,
      url: apiPrefix + path,
      headers: {
        ...keyOf(headers),
        'x-request-id': id,
        ...(bytes && { 'content-type': 'application/json', 'content-length': String(bytes.length) }),
      },
      payload,
      remoteAddress: ip,
      payloadAsStream: true,
    });
    const text = await readAtMost(response.stream());
    if (text !== null) return { status: response.statusCode, text };
    response.raw.res.destroy();
    return null;
  } catch (error) {
    if (signal.aborted) return cancelled;
    throw error;
  } finally {
    signal.removeEventListener('abort', breakOff);
  }
}

/** Nobody reads it: the agent has cancelled the call, or its connection is closed. */
const cancelled: Answer = {
  status: 499,
  text: JSON.stringify({
    ok: false,
    error: { code: 'cancelled', message: 'The call was cancelled.' },
    request_id: 'none',
  }),
};

function keyOf({ authorization, 'x-api-key': key }: IncomingHttpHeaders): Record<string, string> {
  return { ...(authorization && { authorization }), ...(typeof key === 'string' && { 'x-api-key': key }) };
}
