import { createHash, createHmac } from 'node:crypto';
import { expect, it } from 'vitest';
import { scramClient, scramVerifier } from './scram.ts';

/** PostgreSQL's side: checks that the client knows the password, and returns the proof that the server does. */
function logIn(password: string, verifier: string): { isGood: boolean; serverFinal: string } {
  const [, rounds, salt, stored = '', server = ''] =
    /^SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):(.+)$/.exec(verifier) ?? [];
  const client = scramClient(password);
  const first = client.first().slice(3);
  const challenge = `${first.slice(first.indexOf('r='))}more,s=${salt},i=${rounds}`;
  const final = client.final(challenge);
  const message = `${first},${challenge},${final.slice(0, final.indexOf(',p='))}`;
  const storedKey = Buffer.from(stored, 'base64');
  const signature = createHmac('sha256', storedKey).update(message).digest();
  const proof = Buffer.from(final.slice(final.indexOf(',p=') + 3), 'base64');
  const clientKey = Buffer.from(proof.map((byte, index) => byte ^ (signature[index] ?? 0)));
  const isGood = createHash('sha256').update(clientKey).digest().equals(storedKey);
  const serverKey = Buffer.from(server, 'base64');
  const serverFinal = `v=${createHmac('sha256', serverKey).update(message).digest('base64')}`;
  if (isGood) client.verify(serverFinal);
  return { isGood, serverFinal };
}

it('logs in again and again, and after the password or the salt has changed', () => {
  const verifier = scramVerifier('one');
  for (let times = 0; times < 3; times++) expect(logIn('one', verifier).isGood).toBe(true);
  expect(logIn('two', verifier).isGood).toBe(false);
  expect(logIn('two', scramVerifier('two')).isGood).toBe(true);
  expect(logIn('one', scramVerifier('one')).isGood).toBe(true);
  expect(logIn('one', verifier).isGood).toBe(true);
});

it('takes no server that does not know the password', () => {
  const client = scramClient('one');
  const nonce = client.first().slice(client.first().indexOf('r=') + 2);
  client.final(`r=${nonce}more,s=${Buffer.alloc(16).toString('base64')},i=4096`);
  expect(() => client.verify('v=AAAA')).toThrow('did not prove that it knows the password');
  expect(() => scramClient('one').final('r=other,s=AAAA,i=4096')).toThrow('challenge');
});
