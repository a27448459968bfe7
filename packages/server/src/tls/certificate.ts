// A self-signed certificate in DER. Node can generate and export keys but not certificates, and these few fields of X.509
// need no library.
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';
import { addressBytes } from '../lib/networks.ts';

const validDays = 3650;

export type KeyAndCertificate = { key: string; certificate: string };

/** `names`: host names and addresses. */
export function createSelfSigned(names: readonly string[], now = Date.now()): KeyAndCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const body = certificateBody(names, publicKey, now);
  const signature = sign('sha256', body, privateKey);
  const der = sequence(body, sequence(oid(ecdsaWithSha256)), bitString(signature));
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    certificate: pem(der),
  };
}

/** RFC 5280, TBSCertificate. */
function certificateBody(names: readonly string[], publicKey: KeyObject, now: number): Buffer {
  const subject = sequence(set(sequence(oid(commonName), tagged(0x0c, Buffer.from('Rowhouse')))));
  // A clock that is a little late must not refuse it.
  const validity = sequence(time(now - 86_400_000), time(now + validDays * 86_400_000));
  const extensions = sequence(
    extension(basicConstraints, true, sequence()),
    extension(extendedKeyUsage, false, sequence(oid(serverAuth))),
    extension(subjectAltName, false, sequence(...names.map(generalName))),
  );
  return sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(positive(randomBytes(16))),
    sequence(oid(ecdsaWithSha256)),
    subject,
    validity,
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, extensions),
  );
}

const ecdsaWithSha256 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const commonName = [0x55, 0x04, 0x03];
const basicConstraints = [0x55, 0x1d, 0x13];
const extendedKeyUsage = [0x55, 0x1d, 0x25];
const serverAuth = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const subjectAltName = [0x55, 0x1d, 0x11];

function extension(id: number[], isCritical: boolean, value: Buffer): Buffer {
  const critical = isCritical ? [tagged(0x01, Buffer.from([0xff]))] : [];
  return sequence(oid(id), ...critical, tagged(0x04, value));
}

function generalName(name: string): Buffer {
  return isIP(name) ? tagged(0x87, addressBytes(name)) : tagged(0x82, Buffer.from(name));
}

/** GeneralizedTime: after 2049 UTCTime is too short. RFC 5280 wants UTCTime until then. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14);
  return text < '2050'
    ? tagged(0x17, Buffer.from(`${text.slice(2)}Z`))
    : tagged(0x18, Buffer.from(`${text}Z`));
}

/** Neither negative nor with superfluous zeroes in front. */
function positive(bytes: Buffer): Buffer {
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes;
}

const sequence = (...parts: Buffer[]) => tagged(0x30, Buffer.concat(parts));
const set = (...parts: Buffer[]) => tagged(0x31, Buffer.concat(parts));
const integer = (bytes: Buffer) => tagged(0x02, bytes);
const oid = (bytes: number[]) => tagged(0x06, Buffer.from(bytes));
const bitString = (bytes: Buffer) => tagged(0x03, Buffer.concat([Buffer.from([0]), bytes]));

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const bytes = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
