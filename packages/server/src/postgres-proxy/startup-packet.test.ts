import { expect, it } from 'vitest';
import { packetLength, readPacket } from './startup-packet.ts';

function packet(code: number, body: string | Buffer): Buffer {
  const content = Buffer.from(body as string, 'latin1');
  const head = Buffer.alloc(8);
  head.writeInt32BE(content.length + 8);
  head.writeUInt32BE(code, 4);
  return Buffer.concat([head, content]);
}
const v3 = 196_608;
const refusalOf = (bytes: Buffer) => {
  try {
    packetLength(bytes);
    readPacket(bytes);
    return null;
  } catch (error) {
    return (error as { sqlstate?: string }).sqlstate;
  }
};

it('reads the names of user and database, whose default is the user', () => {
  const startup = { kind: 'startup', user: 'me', database: 'me', isReplication: false };
  expect(readPacket(packet(v3, 'user\0me\0\0'))).toEqual(startup);
  expect(readPacket(packet(v3 + 2, 'user\0me\0database\0\0\0'))).toEqual(startup);
  expect(
    readPacket(packet(v3, 'application_name\0\0user\0me\0database\0db\0replication\0false\0\0')),
  ).toEqual({
    ...startup,
    database: 'db',
  });
});

it('reads cancel requests of both protocol versions', () => {
  const [pid, secret] = [Buffer.from([0, 0, 1, 0]), Buffer.alloc(32, 5)];
  expect(readPacket(packet(80_877_102, Buffer.concat([pid, secret])))).toEqual({
    kind: 'cancel',
    pid: 256,
    secret,
  });
  expect(refusalOf(packet(80_877_102, pid))).toBe('08P01');
  expect(refusalOf(packet(80_877_102, Buffer.concat([pid, Buffer.alloc(257)])))).toBe('08P01');
});

it('refuses what PostgreSQL would refuse, and what it could read in another way', () => {
  const malformed = [
    '',
    '\0',
    'user\0me\0',
    'user\0me\0\0\0',
    'user\0me',
    'user\0me\0database\0\0',
    '\0user\0me\0\0',
    'user\0me\0\0database\0db\0\0',
    'user\0me\0user\0you\0\0',
    'user\0me\0database\0a\0database\0b\0\0',
  ];
  for (const body of malformed)
    expect(refusalOf(packet(v3, body)), JSON.stringify(body)).toMatch(/^(08P01|28000)$/);
  expect(refusalOf(packet(v3, 'database\0db\0\0'))).toBe('28000');
  expect(refusalOf(packet(131_072, 'user\0me\0\0'))).toBe('0A000');
  expect(refusalOf(packet(4 << 16, 'user\0me\0\0'))).toBe('0A000');
  expect(refusalOf(packet(80_877_103, 'x'))).toBe('08P01');
});

it('knows the length of a packet once four bytes are there, up to 10,000', () => {
  expect(packetLength(Buffer.from([0, 0, 0]))).toBeNull();
  expect(packetLength(Buffer.from([0, 0, 0, 8]))).toBe(8);
  for (const length of [0, 7, 10_001, 0x7fffffff, 0xffffffff]) {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(length);
    expect(() => packetLength(bytes)).toThrow('invalid length');
  }
});
