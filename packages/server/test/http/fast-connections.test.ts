// Real servers on real connections: whatever bytes come, in whatever pieces, a server with fast connections must see the
// same requests as Node's, and give the same responses.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { seed, seeded } from '../support/random.ts';
import {
  compare,
  exchange,
  fast,
  type Gap,
  get,
  held,
  lastOne,
  open,
  other,
  post,
  serve,
  slow,
} from '../support/two-http-servers.ts';

describe('requests in the ordinary form', () => {
  it.each([
    ['with a body', [post(fast, '{"a":1}'), lastOne], 1],
    ['one after another', [post(fast, '1'), post(fast, '22'), get(fast), post(fast, ''), lastOne], 4],
    [
      'whose body comes by itself',
      [post(fast, ''), post(fast, '{"a":1}').slice(0, -7), '{"a":1}', lastOne],
      2,
    ],
    [
      'that the framework answers',
      [post(fast, 'x'), get(other), post(other, 'x'), post(fast, 'y'), lastOne],
      1,
    ],
    [
      'with streamed responses',
      [get(`${fast}?stream`), get(`${fast}?stream&sized`), post(fast, ''), lastOne],
      3,
    ],
    ['with a large response', [get(`${fast}?large`), post(fast, ''), lastOne], 2],
    ['with the last response', [get(`${other}?last`), post(fast, '')], 0],
    [
      'by other methods',
      [get(fast).replace('GET', 'DELETE'), post(fast, '{}').replace('POST', 'PATCH'), lastOne],
      2,
    ],
    ['with bytes beyond ASCII in the body', [post(fast, '"\xc3\xa9\xff"'), lastOne], 1],
    [
      'with white space around values',
      [post(fast, 'x', 'X-Request-Id:   a b  \r\nAccept:*/*\r\n'), lastOne],
      1,
    ],
  ] as [string, string[], number][])('%s', async (_name, pieces, answered) => {
    const { found, fastCount } = await compare(pieces);
    expect(found?.seen.length).toBeGreaterThanOrEqual(answered);
    expect(fastCount).toBe(answered);
  });
});

it('a body that comes in pieces is read like one that comes at once', async () => {
  const pieces = [post(fast, 'abc').slice(0, -3), 'a', 'b', 'c'].map((piece) => Buffer.from(piece));
  const [node, own] = await Promise.all([serve(false), serve(true)]);
  const answers = await Promise.all([exchange(node, pieces, 20), exchange(own, pieces, 20)]);
  for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 200 OK/);
  expect(own.seen).toEqual(node.seen);
  expect(own.fastCount()).toBe(1);
});

describe('other bytes are left to Node', () => {
  it.each([
    ['two requests in one piece', [post(fast, 'one') + post(fast, 'two') + lastOne]],
    [
      'a request before the last one is answered',
      [post(slow, 'one'), post(fast, 'two'), lastOne],
      'pipelined',
    ],
    [
      'more ahead than is held',
      [post(slow, 'one'), post(fast, 'x'.repeat(60_000)) + post(fast, 'y'.repeat(60_000)), lastOne],
      'pipelined',
    ],
    ['a head in two pieces', ['POST ', post(fast, 'x').slice(5), lastOne]],
    ['a byte more than announced', [`${post(fast, 'abc')}d`, lastOne]],
    ['a body over the limit', [post(fast, 'x'.repeat(70_000)), lastOne]],
    ['another version', [get(fast).replace('1.1', '1.0'), lastOne]],
    ['another path', [get('/readyz'), lastOne]],
    ['a method in lower case', [get(fast).replace('GET', 'get'), lastOne]],
    ['no host', [get(fast).replace('Host: x\r\n', ''), lastOne]],
    ['an empty request', ['\r\n', get(fast), lastOne]],
    ['both ways to give a length', [post(fast, '0\r\n\r\n', 'Transfer-Encoding: chunked\r\n'), lastOne]],
    ['chunks', [`${get(fast, 'Transfer-Encoding: chunked\r\n')}3\r\nabc\r\n0\r\n\r\n`, lastOne]],
    ['a hidden transfer encoding', [post(fast, '0\r\n\r\n', 'Transfer-Encoding : chunked\r\n'), lastOne]],
    ['two lengths', [post(fast, 'abc', 'Content-Length: 3\r\n'), lastOne]],
    ['two different lengths', [post(fast, 'abc', 'Content-Length: 30\r\n'), lastOne]],
    ['a list of lengths', [post(fast, 'abc').replace('Length: 3', 'Length: 3, 3'), lastOne]],
    ['a signed length', [post(fast, 'abc').replace('Length: 3', 'Length: +3'), lastOne]],
    ['a length in hexadecimal', [post(fast, 'abc').replace('Length: 3', 'Length: 0x3'), lastOne]],
    ['an empty length', [post(fast, '').replace('Length: 0', 'Length: '), lastOne]],
    ['a line that ends with LF', [post(fast, 'abc').replace('Host: x\r\n', 'Host: x\n'), lastOne]],
    ['a line that ends with CR', [post(fast, 'abc').replace('Host: x\r\n', 'Host: x\rA: b\r\n'), lastOne]],
    ['a folded line', [post(fast, 'abc', 'X-A: b\r\n  Content-Length: 5\r\n'), lastOne]],
    ['a NUL in a value', [post(fast, 'abc', 'X-A: b\0c\r\n'), lastOne]],
    ['a byte beyond ASCII in a value', [post(fast, 'abc', 'X-A: \xe9\r\n'), lastOne]],
    ['a repeated header', [post(fast, 'abc', 'X-A: b\r\nx-a: c\r\n'), lastOne]],
    ['a key twice', [post(fast, 'abc', 'x-api-key: other\r\n'), lastOne]],
    ['an unknown header', [post(fast, 'abc', 'If-Match: *\r\n'), lastOne]],
    ['an upgrade', [get(fast, 'Connection: upgrade\r\nUpgrade: websocket\r\n'), lastOne]],
    ['an expectation', [post(fast, 'abc', 'Expect: 100-continue\r\n'), lastOne]],
    ['a wish to close', [post(fast, 'abc', 'Connection: close\r\n')]],
    ['a blank in the path', [get(`${fast} x`), lastOne]],
    ['a fragment in the path', [get(`${fast}#x`), lastOne]],
    ['a whole address', [get(`http://x${fast}`), lastOne]],
    ['a long head', [get(fast, `X-A: ${'a'.repeat(9_000)}\r\n`), lastOne]],
    ['a head that is too long', [get(fast, `X-A: ${'a'.repeat(17_000)}\r\n`), lastOne]],
    ['no HTTP', ['\x16\x03\x01\x02\x00\x01\x00\x01']],
  ] as [string, string[], Gap?][])('%s', async (_name, pieces, gap) => {
    const { found, fastCount } = await compare(pieces, gap);
    // With pipelining, only the first request is read here.
    expect(fastCount).toBe(gap === undefined ? 0 : 1);
    expect(found?.answer).toMatch(/^HTTP\/1\.1 \d{3}/);
  });

  it(`whatever comes in whatever pieces (seed ${seed})`, async () => {
    const { below, pick } = seeded(seed);
    const bits = ['\r', '\n', '\r\n', ' ', ':', '0', '3', 'a', '-', '\t', '\0', '\xff', ','];
    const lines = [
      ...['Content-Length: 2', 'Content-Length: 7', 'Content-Length: 2, 2', 'Transfer-Encoding: chunked'],
      ...['X-B:', 'x-c: d', 'X-D: e   ', ' folded', '\tfolded', 'Accept:*/*', 'Host: y', 'Prefer: a'],
      ...['Connection: keep-alive', 'Connection: close', 'Connection: upgrade\r\nUpgrade: websocket'],
      ...['Expect: 100-continue', 'Keep-Alive: timeout=5', 'TE: trailers', 'Via: 1.1 proxy'],
    ];
    const ordinary = [post(fast, '{"a":1}'), post(fast, ''), get(fast), get(`${fast}?stream`)];
    const others = [
      ...[post(other, 'xyz'), get(`http://x${fast}`), get(`http://y${fast}`), get('*')],
      get(fast, 'Connection: keep-alive\r\n').replace('1.1', '1.0'),
      `${get(fast, 'Transfer-Encoding: chunked\r\n').replace('GET', 'POST')}3\r\nabc\r\n0\r\n\r\n`,
    ];
    const changed = (text: string): string => {
      const isLine = below(2) === 0;
      const at = isLine ? text.indexOf('\r\n', below(text.length)) + 2 : below(text.length + 1);
      const given = isLine ? `${pick(lines)}\r\n` : pick(bits);
      return text.slice(0, at) + given + text.slice(isLine ? at : at + below(3));
    };
    const make = (): [pieces: string[], gap: Gap] => {
      const requests = Array.from({ length: 1 + below(3) }, () => {
        let text = pick(below(3) === 0 ? others : ordinary);
        for (let n = below(3); n > 0; n--) text = changed(text);
        return text;
      });
      // As a client that waits sends them, as one that does not, or cut anywhere.
      if (below(2) === 0) return [[...requests, lastOne], pick<Gap>(['answered', 0])];
      const text = requests.join('');
      const cuts = [0, ...Array.from({ length: below(4) }, () => below(text.length)), text.length];
      cuts.sort((a, b) => a - b);
      return [[...cuts.slice(1).map((end, n) => text.slice(cuts[n], end)), lastOne], 'answered'];
    };
    let sum = 0;
    for (let round = 0; round < 12; round++) {
      const compared = await Promise.all(Array.from({ length: 40 }, () => compare(...make())));
      for (const one of compared) sum += one.fastCount;
    }
    expect(sum).toBeGreaterThan(30);
  }, 240_000);
});

describe('a connection', () => {
  it('that sends nothing, or only half of a request, gets the time limits of Node', async () => {
    const served = await serve(true);
    const [silent, half] = await Promise.all([
      exchange(served, [], 0, 9_000),
      exchange(served, [Buffer.from(post(fast, 'abc').slice(0, -3))], 0, 9_000),
    ]);
    expect([silent, half].map((answer) => answer.slice(0, 12))).toEqual(['HTTP/1.1 408', 'HTTP/1.1 408']);
  }, 20_000);

  it('that ends within a body gets the same error as from Node', async () => {
    const bytes = Buffer.from(post(fast, 'abc').slice(0, -1));
    const answers = await Promise.all(
      [serve(false), serve(true)].map(async (serving) => {
        const socket = open(await serving);
        socket.end(bytes);
        const [answer] = await once(socket, 'data');
        return String(answer);
      }),
    );
    expect(answers[0]).toMatch(/^HTTP\/1\.1 400/);
    expect(answers[1]).toBe(answers[0]);
  });

  it('that is idle is closed when the server closes, and one with a running request is not', async () => {
    const served = await serve(true);
    const [idle, busy] = [open(served), open(served)];
    idle.write(post(fast, 'abc'));
    await once(idle, 'data');
    busy.write(post(slow, 'abc'));
    const answered = once(busy, 'data');
    while (served.seen.length < 2) await new Promise((resolve) => setImmediate(resolve));
    const closed = once(served.server, 'close');
    served.server.close();
    await once(idle, 'close');
    expect(String((await answered)[0])).toContain('200 OK');
    served.server.closeIdleConnections();
    await closed;
  });

  it('is closed after the response to a request that was running when the server closed', async () => {
    const served = await serve(true);
    const socket = open(served);
    socket.write(post(slow, 'abc'));
    const answer = once(socket, 'data');
    while (served.seen.length < 1) await new Promise((resolve) => setImmediate(resolve));
    const closed = once(served.server, 'close');
    served.server.close();
    expect(String((await answer)[0])).toMatch(/200 OK[\s\S]*Connection: close\r\n\r\ndata/);
    await closed;
  });

  it('that sends ahead and then closes is noticed during the request', async () => {
    const served = await serve(true);
    const socket = open(served);
    socket.write(post(slow, 'abc'));
    while (served.seen.length < 1) await new Promise((resolve) => setImmediate(resolve));
    expect(served.last().isGone).toBe(false);
    socket.write(post(fast, 'abc'));
    socket.write('GET');
    socket.end();
    await vi.waitFor(() => expect(served.last().isGone).toBe(true));
  });

  it('gets nothing that comes after the response', async () => {
    const served = await serve(true);
    const socket = open(served);
    socket.write(post(fast, 'abc'));
    await once(socket, 'data');
    const late = served.last();
    socket.write(post(slow, 'abc'));
    while (served.seen.length < 2) await new Promise((resolve) => setImmediate(resolve));
    late.send(500, [], Buffer.from('late'));
    late.begin(500, []);
    late.write(Buffer.from('late'));
    late.end();
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 OK/);
    socket.write(post(other, 'abc'));
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 201/);
    // Ignored, as by Node.
    served.last().write(Buffer.from('late'));
    socket.write(post(fast, 'abc'));
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 OK/);
  });

  it('that closes during a request harms no other, and keeps no server open', async () => {
    const served = await serve(true);
    for (const target of [slow, `${fast}?stream&slow`, held, `${other}?slow`]) {
      const before = served.seen.length;
      const socket = open(served);
      socket.write(post(target, 'abc'));
      await vi.waitFor(() => expect(served.seen.length).toBe(before + 1));
      socket.resetAndDestroy();
    }
    const neighbour = open(served);
    neighbour.write(post(fast, 'abc'));
    expect(String((await once(neighbour, 'data'))[0])).toContain('200 OK');
    const closed = once(served.server, 'close');
    served.server.close();
    await closed;
  });

  it('gets a streamed response as fast as it reads', async () => {
    const served = await serve(true);
    const socket = open(served);
    socket.write(post(held, 'abc'));
    await vi.waitFor(() => expect(served.seen.length).toBe(1));
    socket.pause();
    const response = served.last();
    response.begin(200, ['content-type', 'text/plain']);
    const piece = Buffer.alloc(64 * 1024, 'x');
    let sent = 0;
    while (response.write(piece) && sent < 1_000) {
      sent++;
      await sleep(1);
    }
    expect(sent).toBeLessThan(1_000);
    const hasRoom = new Promise<void>((resolve) => response.drained(resolve));
    const ended = new Promise<void>((resolve) => response.onEnd(resolve));
    let got = 0;
    socket.on('data', ({ length }) => {
      got += length;
    });
    socket.resume();
    await hasRoom;
    response.end();
    await ended;
    await vi.waitFor(() => expect(got).toBeGreaterThan((sent + 1) * piece.length));
    socket.write(post(fast, 'abc'));
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(served.fastCount()).toBe(2);
  });

  it('is closed when its response is broken off, and tells of its end once', async () => {
    const served = await serve(true);
    for (const breakOff of ['by the service', 'by the client']) {
      const socket = open(served);
      const before = served.seen.length;
      socket.write(post(held, breakOff));
      await vi.waitFor(() => expect(served.seen.length).toBe(before + 1));
      const response = served.last();
      let ends = 0;
      response.onEnd(() => ends++);
      response.begin(200, ['content-type', 'text/plain']);
      response.write(Buffer.from('half'));
      const answer = String((await once(socket, 'data'))[0]);
      expect(answer).toMatch(/half/);
      expect(answer).not.toContain('0\r\n\r\n');
      if (breakOff === 'by the service') {
        response.breakOff();
        await once(socket, 'close');
      } else socket.destroy();
      await vi.waitFor(() => expect([response.isGone, ends]).toEqual([true, 1]));
      response.end();
      response.onEnd(() => ends++);
      expect(ends).toBe(2);
    }
  });

  it('that is idle for longer than promised is closed', async () => {
    const served = await serve(true);
    served.server.keepAliveTimeout = 100;
    const socket = open(served);
    socket.write(post(fast, 'abc'));
    await once(socket, 'data');
    await once(socket, 'close');
    expect(served.fastCount()).toBe(1);
  });

  it('whose client does not read gets no further responses, and is closed', async () => {
    const served = await serve(true);
    served.server.timeout = 500;
    const socket = open(served);
    socket.pause();
    const accepted = once(served.server, 'connection');
    await once(socket, 'connect');
    const [theirs] = (await accepted) as [Socket];
    let sent = 0;
    while (sent === served.seen.length && sent < 300) {
      socket.write(get(`${fast}?large`));
      sent++;
      await vi.waitFor(() => expect(served.seen.length).toBe(sent), 300).catch(() => {});
      await sleep(5);
    }
    // 300 responses are 30 MB. The kernel buffers some of them, the service at most one.
    expect(served.seen.length).toBeLessThan(250);
    expect(served.fastCount()).toBe(served.seen.length);
    const neighbour = open(served);
    neighbour.write(post(fast, 'abc'));
    expect(String((await once(neighbour, 'data'))[0])).toContain('200 OK');
    await vi.waitFor(() => expect(theirs.destroyed).toBe(true), 5_000);
  });

  it('may be encrypted', async () => {
    const served = await serve(true, true);
    const socket = open(served, true);
    for (const target of [fast, `${fast}?stream`, fast, other, fast]) {
      socket.write(post(target, 'abc'));
      expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 20[01]/);
      await sleep(100);
    }
    socket.write(get('/'));
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 201/);
    expect(served.fastCount()).toBe(3);
  });
});
