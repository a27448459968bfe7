// The certificate of the proxy: the operator's, or a self-signed one that is made at the first start and kept in the data
// folder. Renewed files are used without a restart.
import { constants, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import { EngineError } from '../engine/engine-error.ts';
import { createSelfSigned } from './certificate.ts';

export type TlsFiles = Readonly<{ certificate: string; key: string }>;

const checkMs = 10_000;

export function selfSignedFiles(dataFolder: string): TlsFiles {
  const folder = path.join(dataFolder, 'postgres-tls');
  return { certificate: path.join(folder, 'certificate.pem'), key: path.join(folder, 'key.pem') };
}

/** Makes the certificate if there is none. Both files appear together. */
export function ensureSelfSigned(dataFolder: string, names: readonly string[]): TlsFiles {
  const files = selfSignedFiles(dataFolder);
  const folder = path.dirname(files.key);
  if (existsSync(files.key) && existsSync(files.certificate)) return files;
  const unfinished = `${folder}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  const { key, certificate } = createSelfSigned(names);
  writeFileSync(path.join(unfinished, path.basename(files.key)), key, { mode: 0o600 });
  writeFileSync(path.join(unfinished, path.basename(files.certificate)), certificate, { mode: 0o600 });
  rmSync(folder, { recursive: true, force: true });
  renameSync(unfinished, folder);
  return files;
}

/** Throws unless the files can be used now. Later problems are reported, and the last good certificate stays in use. */
export function openTls(
  files: TlsFiles,
  onProblem: (error: unknown) => void,
  now = () => performance.now(),
): () => SecureContext {
  let context = load(files);
  let stamp = stampOf(files);
  let checkedAt = now();
  return () => {
    if (now() - checkedAt < checkMs) return context;
    checkedAt = now();
    try {
      const found = stampOf(files);
      if (found === stamp) return context;
      context = load(files);
      stamp = found;
    } catch (error) {
      onProblem(error);
    }
    return context;
  };
}

export function readCertificate({ certificate }: TlsFiles): X509Certificate {
  return new X509Certificate(readFileSync(certificate));
}

function load({ certificate, key }: TlsFiles): SecureContext {
  try {
    return createSecureContext({
      cert: readFileSync(certificate),
      key: readFileSync(key),
      minVersion: 'TLSv1.2',
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    });
  } catch (error) {
    throw new EngineError(
      `TLS cannot be offered with ${certificate} and ${key}: ${(error as Error).message}`,
      {
        hint: 'Set ROWHOUSE_POSTGRES_TLS_CERT to a certificate in PEM format and ROWHOUSE_POSTGRES_TLS_KEY to its private key, without a passphrase.',
      },
    );
  }
}

function stampOf({ certificate, key }: TlsFiles): string {
  return [certificate, key].map((file) => `${statSync(file).mtimeMs} ${statSync(file).ino}`).join(' ');
}
