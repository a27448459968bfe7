// The certificates of HTTP and of direct connections: the operator's, or for direct connections a self-signed one that is
// made at the first start and kept in the data folder. Renewed files are used without a restart.
import { constants, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import { EngineError } from '../servers/engine-error.ts';
import type { Config } from '../settings/config.ts';
import { createSelfSigned } from './certificate.ts';

export type TlsFiles = Readonly<{ certificate: string; key: string }>;

const checkMs = 10_000;

/** null: the service speaks HTTP without TLS. */
export function serviceTlsFiles({ tlsCert, tlsKey }: Pick<Config, 'tlsCert' | 'tlsKey'>): TlsFiles | null {
  return tlsCert !== null && tlsKey !== null ? { certificate: tlsCert, key: tlsKey } : null;
}

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
  const read = openTlsOptions(files, onProblem, now);
  let options = read();
  let context = createSecureContext(options);
  return () => {
    const found = read();
    if (found !== options) [options, context] = [found, createSecureContext(found)];
    return context;
  };
}

/** The same as options, for servers that make the context themselves. A new object means new files. */
export function openTlsOptions(
  files: TlsFiles,
  onProblem: (error: unknown) => void,
  now = () => performance.now(),
): () => SecureContextOptions {
  let options = load(files);
  let stamp = stampOf(files);
  let checkedAt = now();
  return () => {
    if (now() - checkedAt < checkMs) return options;
    checkedAt = now();
    try {
      const found = stampOf(files);
      if (found === stamp) return options;
      options = load(files);
      stamp = found;
    } catch (error) {
      onProblem(error);
    }
    return options;
  };
}

export function readCertificate({ certificate }: TlsFiles): X509Certificate {
  return new X509Certificate(readFileSync(certificate));
}

function load({ certificate, key }: TlsFiles): SecureContextOptions {
  try {
    const options: SecureContextOptions = {
      cert: readFileSync(certificate),
      key: readFileSync(key),
      minVersion: 'TLSv1.2',
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    };
    // Throws if the two do not belong together.
    createSecureContext(options);
    return options;
  } catch (error) {
    throw new EngineError(
      `TLS cannot be offered with ${certificate} and ${key}: ${(error as Error).message}`,
      {
        hint: 'The certificate and its private key must be in PEM format and belong together, and the key must have no passphrase. The settings whose names end in TLS_CERT and TLS_KEY name them.',
      },
    );
  }
}

function stampOf({ certificate, key }: TlsFiles): string {
  return [certificate, key].map((file) => `${statSync(file).mtimeMs} ${statSync(file).ino}`).join(' ');
}
