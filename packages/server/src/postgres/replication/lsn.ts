// Positions in the WAL, which PostgreSQL writes as two hexadecimal numbers: 16/B374D848.

export function parseLsn(text: string): bigint {
  const [, high, low] = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/i.exec(text) ?? [];
  if (high === undefined) throw new Error(`"${text}" is not a position in the WAL.`);
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

export function formatLsn(lsn: bigint): string {
  return `${hex(lsn >> 32n)}/${hex(lsn & 0xffff_ffffn)}`;
}

/** The name of the WAL file that contains this position. */
export function segmentName(timeline: number, lsn: bigint, segmentBytes: number): string {
  const number = lsn / BigInt(segmentBytes);
  const perHigh = 0x1_0000_0000n / BigInt(segmentBytes);
  return [BigInt(timeline), number / perHigh, number % perHigh]
    .map((part) => hex(part).padStart(8, '0'))
    .join('');
}

/** The position at which a WAL file begins. */
export function segmentStart(name: string, segmentBytes: number): bigint {
  const perHigh = 0x1_0000_0000n / BigInt(segmentBytes);
  const number = BigInt(`0x${name.slice(8, 16)}`) * perHigh + BigInt(`0x${name.slice(16, 24)}`);
  return number * BigInt(segmentBytes);
}

function hex(value: bigint): string {
  return value.toString(16).toUpperCase();
}
