// SCRAM-SHA-256: the stored form of a password, computed here so that no password appears in a statement or in a
// server's log, and the client's side of a login.
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';

const iterations = 4096;

/** Key stretching takes longer than the rest of opening a connection, and its result is the same at each login. */
const stretched = new LRUCache<string, Buffer>({ max: 20_000 });

export function scramVerifier(password: string, salt: Buffer = randomBytes(16)): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256');
  const hmac = (text: string) => createHmac('sha256', salted).update(text).digest();
  const storedKey = createHash('sha256').update(hmac('Client Key')).digest('base64');
  const serverKey = hmac('Server Key').toString('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}

/** The client's side of a SCRAM-SHA-256 exchange. `verify` checks that the server knows the password too. */
export function scramClient(password: string): {
  first(): string;
  final(serverFirst: string): string;
  verify(serverFinal: string): void;
} {
  const nonce = randomBytes(18).toString('base64');
  let expected = '';
  return {
    first: () => `n,,n=,r=${nonce}`,
    final: (serverFirst) => {
      const { r = '', s = '', i = '' } = attributes(serverFirst);
      if (!r.startsWith(nonce) || !(Number(i) > 0))
        throw new Error('PostgreSQL sent an invalid SCRAM challenge.');
      const salted = stretch(password, s, Number(i));
      const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();
      const clientKey = hmac(salted, 'Client Key');
      const withoutProof = `c=biws,r=${r}`;
      const message = `n=,r=${nonce},${serverFirst},${withoutProof}`;
      const signature = hmac(createHash('sha256').update(clientKey).digest(), message);
      expected = hmac(hmac(salted, 'Server Key'), message).toString('base64');
      const proof = Buffer.from(clientKey.map((byte, index) => byte ^ (signature[index] ?? 0)));
      return `${withoutProof},p=${proof.toString('base64')}`;
    },
    verify: (serverFinal) => {
      if (attributes(serverFinal).v !== expected)
        throw new Error('The PostgreSQL server did not prove that it knows the password.');
    },
  };
}

function stretch(password: string, salt: string, rounds: number): Buffer {
  const name = `${rounds} ${salt} ${password}`;
  const known = stretched.get(name);
  if (known) return known;
  const salted = pbkdf2Sync(password, Buffer.from(salt, 'base64'), rounds, 32, 'sha256');
  stretched.set(name, salted);
  return salted;
}

function attributes(message: string): Record<string, string> {
  return Object.fromEntries(message.split(',').map((part) => [part.slice(0, 1), part.slice(2)]));
}
