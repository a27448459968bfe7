// A certificate authority of one's own, which signed the certificate of the service. Node reads NODE_EXTRA_CA_CERTS only when it
// starts, so a file that an option or a profile names is added here to what fetch trusts.
import { readFileSync } from 'node:fs';
import tls from 'node:tls';
import { failure } from './failure.ts';
import { clean } from './table.ts';

/** From now on, in this process. `file`: one or more certificates in PEM form. */
export function trustAuthority(file: string): void {
  const extra = process.env.NODE_EXTRA_CA_CERTS;
  const ca = [...tls.rootCertificates, readCertificates(file), ...(extra ? [readCertificates(extra)] : [])];
  const usual = tls.createSecureContext;
  tls.createSecureContext = (options) => usual({ ca, ...options });
}

function readCertificates(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw failure(
      'file_not_readable',
      clean(`${file} cannot be read: ${(error as Error).message}.`),
      'Name the file with the certificate of the authority, in PEM form: --ca <file>',
    );
  }
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw failure('invalid_certificate', clean(`${file} has no certificate in PEM form.`));
}

/** What a failed handshake means, by the code of OpenSSL or Node. null: something else failed. */
export function certificateProblem(
  base: string,
  { code, message }: { code?: string; message?: string },
): { message: string; hint: string } | null {
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID')
    return {
      message: `The certificate of ${base} is ${code === 'CERT_HAS_EXPIRED' ? 'expired' : 'not valid yet'}.`,
      hint: 'Renew it, or set the clock of this machine.',
    };
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return {
      message: `The certificate of ${base} is for another name: ${message ?? ''}`,
      hint: 'Use a name of the certificate in --url.',
    };
  if (!code || !untrusted.has(code)) return null;
  return {
    message: `This machine does not trust the certificate of ${base} (${code}).`,
    hint: 'If an authority of your own signed it, name its certificate: --ca <file>, ROWHOUSE_CA, or NODE_EXTRA_CA_CERTS. `rowhouse login --ca <file>` stores it in the profile.',
  };
}

const untrusted = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_UNTRUSTED',
  'INVALID_CA',
]);
