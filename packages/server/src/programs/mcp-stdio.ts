// MCP over stdin and stdout, which `rowhouse mcp` starts: the tools call the API of a running service over HTTP.
// ROWHOUSE_URL, ROWHOUSE_API_KEY and ROWHOUSE_MCP_READ_ONLY are in the environment.
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { apiPrefix } from '@rowhouse/api';
import { timeoutSignal } from '../lib/timeout-signal.ts';
import { exactLines } from '../mcp/exact-lines.ts';
import { readAtMost } from '../mcp/results.ts';
import { type Answer, openMcpServer } from '../mcp/server.ts';
import type { ApiRequest } from '../mcp/tools.ts';
import { toJsonText } from '../query/json/json-text.ts';
import { version } from '../settings/version.ts';

const { ROWHOUSE_URL: base = '', ROWHOUSE_API_KEY: key = '', ROWHOUSE_MCP_READ_ONLY: readOnly } = process.env;
/** Longer than a statement: its own timeout is the better answer. */
const timeoutMs = 60_000;
/** As much as over HTTP. */
const maxLineBytes = 1024 * 1024;

const input = process.stdin.pipe(exactLines(maxLineBytes));
serveStdio(() => openMcpServer({ call: callApi, version, isReadOnly: readOnly === 'true' }), {
  transport: new StdioServerTransport(input),
  onerror: (error) => console.error(error.message),
});

async function callApi({ method, path, body }: ApiRequest, signal: AbortSignal): Promise<Answer> {
  try {
    const response = await fetch(base + apiPrefix + path, {
      method,
      headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: toJsonText(body) }),
      // A redirect would carry the key to another place.
      redirect: 'manual',
      // The service cancels the statement of a connection that is closed.
      signal: AbortSignal.any([signal, timeoutSignal(timeoutMs)]),
    });
    return await read(response);
  } catch (error) {
    return unreachable(error as Error & { cause?: { code?: string } }, method);
  }
}

async function read({ status, headers, body }: Response): Promise<Answer> {
  if (!headers.get('content-type')?.includes('json'))
    return failure('not_rowhouse', `The server at ${base} is not Rowhouse (HTTP ${status}).`, changeUrl);
  // If the response is too large, the connection is closed, and the service cancels the statement.
  const text = body ? await readAtMost(body) : '';
  return text === null ? null : { status, text };
}

const changeUrl = 'Set ROWHOUSE_URL to the address that `rowhouse start` printed.';

function unreachable({ message, cause }: Error & { cause?: { code?: string } }, method: string): Answer {
  const outcome =
    method === 'GET' ? '' : ' If it was a change, check whether it was made before you repeat it.';
  return failure('no_answer', `${base} did not answer: ${cause?.code ?? message}.${outcome}`, changeUrl);
}

function failure(code: string, message: string, hint: string): Answer {
  const text = JSON.stringify({ ok: false, error: { code, message, hint }, request_id: 'none' });
  return { status: 503, text };
}
