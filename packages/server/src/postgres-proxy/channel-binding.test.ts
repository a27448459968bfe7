import { expect, it } from 'vitest';
import { openFlagCheck, openOfferFilter } from './channel-binding.ts';

const message = (kind: string, body: string) => {
  const head = Buffer.alloc(5);
  head.write(kind);
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, Buffer.from(body, 'latin1')]);
};
const offer = (...mechanisms: string[]) => message('R', `\0\0\0\n${mechanisms.join('\0')}\0\0`);
const ready = message('Z', 'I');

it('removes the offer of channel binding, in whatever pieces it arrives, and nothing else', () => {
  const version = message('v', '\0\x03\0\0\0\0\0\0');
  const both = Buffer.concat([version, offer('SCRAM-SHA-256-PLUS', 'SCRAM-SHA-256'), ready]);
  const expected = Buffer.concat([version, offer('SCRAM-SHA-256'), ready]);
  for (const size of [1, 3, 7, 1000]) {
    const filter = openOfferFilter();
    const pieces = Array.from({ length: Math.ceil(both.length / size) }, (_, n) =>
      filter(both.subarray(n * size, (n + 1) * size)),
    );
    expect(Buffer.concat(pieces)).toEqual(expected);
  }
  for (const first of [message('R', '\0\0\0\0'), message('E', 'SFATAL\0\0')]) {
    const filter = openOfferFilter();
    expect(filter(first)).toEqual(first);
    expect(filter(offer('SCRAM-SHA-256-PLUS'))).toEqual(offer('SCRAM-SHA-256-PLUS'));
  }
});

it('tells a client that would sign a missing offer what to do', () => {
  const answer = (flag: string) => message('p', `SCRAM-SHA-256\0\0\0\0\x20${flag},,n=,r=abcdefgh`);
  const check = openFlagCheck();
  const pieces = [...answer('n')].map((byte) => check(Buffer.from([byte])));
  expect(Buffer.concat(pieces)).toEqual(answer('n'));
  expect(check(answer('y'))).toEqual(answer('y'));
  expect(() => openFlagCheck()(answer('y'))).toThrow('channel binding');
  expect(openFlagCheck()(message('X', ''))).toEqual(message('X', ''));
});
