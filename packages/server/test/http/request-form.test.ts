// Requests with two meanings are refused (request-form.ts), by a server with fast connections as by Node's.
import { describe, expect, it } from 'vitest';
import { compare, fast, get, lastOne, other, post } from '../support/two-http-servers.ts';

/** What identifies a request to the service, in the head of a request that is otherwise fine. */
const withHost = (lines: string, start = `GET ${fast} HTTP/1.1`) => `${start}\r\n${lines}\r\n`;

describe('a request with two meanings is refused, and so is what follows it', () => {
  it.each([
    ['two hosts', withHost('Host: x\r\nHost: y\r\n')],
    ['the same host twice', withHost('Host: x\r\nHost: x\r\n')],
    ['two hosts in different case', withHost('HOST: x\r\nhost: y\r\n')],
    ['two hosts with others between', withHost('Host: x\r\nAccept: */*\r\nX-A: b\r\nhOst: y\r\n')],
    ['an empty second host', withHost('Host: x\r\nHost:\r\n')],
    ['an empty host', withHost('Host:\r\n')],
    ['a blank host', withHost('Host: \t \r\n')],
    ['no host', withHost('')],
    ['a list of hosts', withHost('Host: x, y\r\n')],
    ['a host with a path', withHost('Host: x/y\r\n')],
    ['a host with a user', withHost('Host: x@y\r\n')],
    ['a host with two ports', withHost('Host: x:1:2\r\n')],
    ['a host with a blank', withHost('Host: x y\r\n')],
    ['a host with a byte beyond ASCII', withHost('Host: \xe9\r\n')],
    ['two hosts in HTTP/1.0', withHost('Host: x\r\nHost: y\r\n', `GET ${fast} HTTP/1.0`)],
    ['HTTP/2.0', withHost('Host: x\r\n', `GET ${fast} HTTP/2.0`)],
    ['HTTP/2', withHost('Host: x\r\n', `GET ${fast} HTTP/2`)],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/3.0', withHost('Host: x\r\n', `GET ${fast} HTTP/3.0`)],
    ['HTTP/1.2', withHost('Host: x\r\n', `GET ${fast} HTTP/1.2`)],
    ['HTTP/1.10', withHost('Host: x\r\n', `GET ${fast} HTTP/1.10`)],
    ['HTTP/01.1', withHost('Host: x\r\n', `GET ${fast} HTTP/01.1`)],
    ['HTTP/0.9', withHost('Host: x\r\n', `GET ${fast} HTTP/0.9`)],
    ['no version', withHost('Host: x\r\n', `GET ${fast}`)],
    ['http/1.1', withHost('Host: x\r\n', `GET ${fast} http/1.1`)],
    ['another protocol', withHost('Host: x\r\n', `GET ${fast} ICE/1.1`)],
    ['a whole address of another host', withHost('Host: x\r\n', `GET http://y${fast} HTTP/1.1`)],
    ['a whole address with another port', withHost('Host: x\r\n', `GET http://x:1${fast} HTTP/1.1`)],
    ['a whole address with a user', withHost('Host: x\r\n', `GET http://x@y${fast} HTTP/1.1`)],
    ['a whole address of another kind', withHost('Host: x\r\n', `GET ftp://x${fast} HTTP/1.1`)],
    ['a whole address without a host', withHost('', `GET http://x${fast} HTTP/1.0`)],
    ['a star as the target', withHost('Host: x\r\n', 'GET * HTTP/1.1')],
    ['only a host as the target', withHost('Host: x\r\n', 'CONNECT x:80 HTTP/1.1')],
    ['a key twice', withHost('Host: x\r\nX-API-Key: a\r\nx-api-key: b\r\n')],
    ['two origins', withHost('Host: x\r\nOrigin: http://a\r\nOrigin: http://b\r\n')],
    [
      'chunks in HTTP/1.0',
      withHost('Host: x\r\nTransfer-Encoding: chunked\r\n', `POST ${fast} HTTP/1.0`).concat('0\r\n\r\n'),
    ],
    [
      'packed chunks',
      withHost('Host: x\r\nTransfer-Encoding: gzip, chunked\r\n', `POST ${fast} HTTP/1.1`).concat(
        '0\r\n\r\n',
      ),
    ],
    [
      'chunks twice',
      withHost(
        'Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n',
        `POST ${fast} HTTP/1.1`,
      ).concat('0\r\n\r\n'),
    ],
  ] as [string, string][])('%s', async (_name, bytes) => {
    // Behind the fast reader it is the first request of a connection, or comes after one that was read fast.
    for (const before of [[], [post(fast, 'one')]]) {
      const { found, fastCount } = await compare([...before, bytes + get(other), lastOne]);
      expect(fastCount).toBe(before.length);
      expect(found?.seen).toHaveLength(before.length);
      const statuses = [...(found?.answer.matchAll(/HTTP\/1\.1 (\d{3}) /g) ?? [])].map(
        ([, status]) => status,
      );
      // Node closes the connection of a CONNECT without a word.
      expect(statuses.slice(before.length)).toEqual(bytes.startsWith('CONNECT') ? [] : ['400']);
    }
  });

  it('a whole address of the same host is a path', async () => {
    for (const start of ['http://x', 'HTTPS://X']) {
      const { found } = await compare([get(`${start}${fast}?a=b`), get(start), get(`${start}?c=d`), lastOne]);
      expect(found?.seen.map(({ url }) => url)).toEqual([`${fast}?a=b`, '/', '/?c=d', '/']);
    }
  });
});
