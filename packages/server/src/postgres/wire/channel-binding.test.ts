import { describe, expect, it } from 'vitest';
import { hideChannelBinding } from './channel-binding.ts';

function message(kind: string, ...parts: (number | string)[]): Buffer {
  const body = Buffer.concat(
    parts.map((part) => {
      if (typeof part === 'string') return Buffer.from(part, 'latin1');
      const number = Buffer.alloc(4);
      number.writeUInt32BE(part);
      return number;
    }),
  );
  const head = Buffer.from(`${kind}....`, 'latin1');
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

const offer = message('R', 10, 'SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0');
const rest = message('R', 10, 'SCRAM-SHA-256\0\0');
const later = Buffer.concat([message('R', 11, 'r=…'), offer, Buffer.from('whatever follows')]);

function pass(...pieces: Buffer[]): Buffer {
  const hide = hideChannelBinding();
  return Buffer.concat(pieces.map((piece) => hide(piece)));
}

describe('the offer of channel binding', () => {
  it('is hidden, wherever the bytes are cut, and nothing after it is changed', () => {
    const all = Buffer.concat([offer, later]);
    const expected = Buffer.concat([rest, later]);
    expect(pass(all)).toEqual(expected);
    for (let at = 0; at <= all.length; at++)
      expect(pass(all.subarray(0, at), all.subarray(at))).toEqual(expected);
    expect(pass(...Array.from(all, (byte) => Buffer.from([byte])))).toEqual(expected);
  });

  it('is hidden after a negotiation of the protocol', () => {
    const negotiation = message('v', 196_608, 0);
    expect(pass(negotiation, offer, later)).toEqual(Buffer.concat([negotiation, rest, later]));
  });

  it.each([
    ['another method', message('R', 5, 'salt')],
    ['no password', message('R', 0)],
    ['an error', message('E', 'SFATAL\0\0')],
    ['an offer without it', rest],
    ['nonsense', Buffer.alloc(50_000, 'E\xff\xff\xff\xff', 'latin1')],
    [
      'an offer of a length that cannot be',
      Buffer.concat([Buffer.from('R\xff\xff\xff\xff', 'latin1'), later]),
    ],
    ['a length of nothing', Buffer.concat([Buffer.from('R\0\0\0\0', 'latin1'), later])],
    ['a length of nothing in a negotiation', Buffer.concat([Buffer.from('v\0\0\0\0', 'latin1'), later])],
  ])('is not looked for in %s', (_what, bytes) => {
    expect(pass(bytes)).toEqual(bytes);
    expect(pass(bytes.subarray(0, 7), bytes.subarray(7))).toEqual(bytes);
  });
});
