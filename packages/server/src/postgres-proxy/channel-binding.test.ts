import { expect, it } from 'vitest';
import { openFlagCheck } from './channel-binding.ts';

const message = (kind: string, body: string) => {
  const head = Buffer.alloc(5);
  head.write(kind);
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, Buffer.from(body, 'latin1')]);
};

it('tells a client that would sign a missing offer what to do', () => {
  const answer = (flag: string) => message('p', `SCRAM-SHA-256\0\0\0\0\x20${flag},,n=,r=abcdefgh`);
  const check = openFlagCheck();
  const pieces = [...answer('n')].map((byte) => check(Buffer.from([byte])));
  expect(Buffer.concat(pieces)).toEqual(answer('n'));
  expect(check(answer('y'))).toEqual(answer('y'));
  expect(() => openFlagCheck()(answer('y'))).toThrow('channel binding');
  expect(openFlagCheck()(message('X', ''))).toEqual(message('X', ''));
});
