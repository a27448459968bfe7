// Before the load: both sides answer every form with the right rows, hide the rows of others, refuse forged tokens, and answer a
// repeat with the first answer. Otherwise the load would compare different work.
import { request as send } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { toRequest } from './requests.mjs';

/** How many requests of each form. */
const samples = 5;

/** `sides`: the address of each, ours and obvious. */
export async function checkForms(sides, forms, tokens) {
  for (const [side, base] of Object.entries(sides)) {
    for (const form of forms) {
      const make = () => toRequest(form, side === 'ours', tokens);
      const ask = async ({ path, options }) => {
        const response = await answerOf(base + path, options);
        return { ...response, what: `${form.name}, ${side}: ${options.method} ${path}` };
      };
      for (let n = 0; n < samples; n++) {
        const request = make();
        expectRight(request, await ask(request));
      }
      if (form.operation.whose === 'own' && form.headers.authorization) await checkPolicy(make, ask);
      if (form.headers['idempotency-key']) await checkRepeat(make, ask);
    }
  }
}

function expectRight({ id, options }, response) {
  const { status, text, headers } = response;
  if (status >= 300) fail(response, 'a success');
  if (options.headers.Origin && !headers['access-control-allow-origin'])
    fail(response, 'an access-control-allow-origin header');
  if (options.method === 'OPTIONS') return;
  const answer = JSON.parse(text);
  const rows = answer.results?.flatMap((result) => result.rows) ?? answer.rows ?? [answer.row];
  const isRight = rows.length > 0 && rows.every((row) => row && (answer.row || Number(row.id) === id));
  if (!isRight) fail(response, `row ${id}`);
}

async function checkPolicy(make, ask) {
  const request = make();
  const hidden = await ask({
    ...request,
    path: request.path.replace(String(request.id), String(request.id + 1)),
  });
  if (hidden.status !== 200 || JSON.parse(hidden.text).rows.length > 0)
    fail(hidden, 'no row of another user');
  const { headers } = request.options;
  const token = headers.authorization;
  const forged = `${token.slice(0, -8)}${token.at(-8) === 'A' ? 'B' : 'A'}${token.slice(-7)}`;
  const options = { ...request.options, headers: { ...headers, authorization: forged } };
  const refused = await ask({ ...request, options });
  if (refused.status !== 401) fail(refused, 'status 401 for a forged token');
}

async function checkRepeat(make, ask) {
  const request = make();
  const first = await ask(request);
  const again = await ask(request);
  if (!isDeepStrictEqual(JSON.parse(first.text), JSON.parse(again.text))) fail(again, first.text);
}

function fail({ what, status, text }, expected) {
  throw new Error(`${what} got ${status} ${text}, not ${expected}.`);
}

/** Not fetch: it sets some of these headers itself. */
function answerOf(url, { body, ...how }) {
  return new Promise((resolve, reject) => {
    const request = send(url, { ...how, agent: false }, async (response) => {
      let text = '';
      for await (const piece of response.setEncoding('utf8')) text += piece;
      resolve({ status: response.statusCode, headers: response.headers, text });
    });
    request.on('error', reject);
    request.end(body);
  });
}
