import { endianness } from 'node:os';
import { expect, it } from 'vitest';
import { leftClients } from './left-clients.ts';

const closed = '08';
const established = '01';

/** As Linux writes it. */
function end(address: string, port: number): string {
  const bytes = address.split('.').map(Number);
  if (endianness() === 'LE') bytes.reverse();
  const hex = Buffer.from(bytes).toString('hex').toUpperCase();
  return `${hex}:${port.toString(16).toUpperCase().padStart(4, '0')}`;
}
const line = (own: string, remote: string, state: string) =>
  `   1: ${own} ${remote} ${state} 00000000:00000000 00:00000000 00000000   101        0 830146 1 0000 100 0 0 10 0`;

it('finds clients that have closed their connection to this server, and no others', () => {
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    line(end('127.0.0.1', 5432), end('0.0.0.0', 0), '0A'),
    line(end('127.0.0.1', 5432), end('127.0.0.1', 40_001), closed),
    line(end('127.0.0.1', 5432), end('127.0.0.1', 40_002), established),
    // The same port of another address.
    line(end('127.0.0.1', 5432), end('127.0.0.2', 40_001), established),
    line(end('127.0.0.1', 5432), end('127.0.0.2', 40_003), closed),
    // Another server.
    line(end('127.0.0.2', 5432), end('127.0.0.1', 40_004), closed),
    line(end('127.0.0.1', 5433), end('127.0.0.1', 40_005), closed),
    line(end('127.0.0.1', 15_432), end('127.0.0.1', 40_006), closed),
    // A connection that a client on this machine opened to a PostgreSQL elsewhere.
    line(end('10.1.2.3', 40_007), end('127.0.0.1', 5432), closed),
    'not a line',
    '',
  ].join('\n');
  expect(leftClients(table, { address: '127.0.0.1', port: 5432 })).toEqual([
    { address: '127.0.0.1', port: 40_001 },
    { address: '127.0.0.2', port: 40_003 },
  ]);
});

it('reads nothing from what it does not know', () => {
  const server = { address: '127.0.0.1', port: 5432 };
  for (const table of ['', 'x', '1: 2 3 08', `1: ${'0'.repeat(32)}:1538 ${'0'.repeat(32)}:1538 08`])
    expect(leftClients(table, server)).toEqual([]);
});
