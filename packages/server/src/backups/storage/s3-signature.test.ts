// The example of Amazon's documentation ("Signature Calculations: Transferring Payload in a Single Chunk").
import { describe, expect, it } from 'vitest';
import { sign } from './s3-signature.ts';

const credentials = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  sessionToken: null,
};
const at = new Date('2013-05-24T00:00:00Z');
const host = 'examplebucket.s3.amazonaws.com';

describe('signatures of S3 requests', () => {
  it("equal those of Amazon's examples", () => {
    const get = { method: 'GET', host, path: '/test.txt', query: {}, body: Buffer.alloc(0) };
    expect(
      sign({ ...get, headers: { Range: 'bytes=0-9' } }, credentials, 'us-east-1', at).headers.authorization,
    ).toContain('f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41');
    const list = { ...get, path: '/', query: { 'max-keys': '2', prefix: 'J' }, headers: {} };
    const signed = sign(list, credentials, 'us-east-1', at);
    expect(signed.path).toBe('/?max-keys=2&prefix=J');
    expect(signed.headers.authorization).toContain(
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    );
  });

  it('cover the session token and the body', () => {
    const put = { method: 'PUT', host, path: '/a b+ü', query: {}, headers: {} };
    const one = sign({ ...put, body: Buffer.from('1') }, credentials, 'us-east-1', at);
    const other = sign({ ...put, body: Buffer.from('2') }, credentials, 'us-east-1', at);
    expect(one.path).toBe('/a%20b%2B%C3%BC');
    expect(one.headers.authorization).not.toBe(other.headers.authorization);
    const temporary = sign(
      { ...put, body: Buffer.from('1') },
      { ...credentials, sessionToken: 'token' },
      'us-east-1',
      at,
    );
    expect(temporary.headers.authorization).toContain('x-amz-security-token');
  });
});
