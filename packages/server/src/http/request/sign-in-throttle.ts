// Starts sign-ups and sign-ins that arrive together a few at a time, with other requests in between. Hundreds of them at
// once, most of which are refused, would otherwise block queries for hundreds of milliseconds.
import type { IncomingMessage, ServerResponse } from 'node:http';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const atATime = 1;
const paths = /\/auth\/(?:signin|signup)(?:\?|$)/;

export function throttleSignIns(handle: Handler): Handler {
  const waiting: [IncomingMessage, ServerResponse][] = [];
  const begin = () => {
    for (const [request, response] of waiting.splice(0, atATime)) handle(request, response);
    if (waiting.length > 0) setImmediate(begin);
  };
  return (request, response) => {
    if (request.method !== 'POST' || !paths.test(request.url ?? '')) return handle(request, response);
    if (waiting.push([request, response]) === 1) setImmediate(begin);
  };
}
