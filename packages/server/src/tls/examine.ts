// What `rowhouse doctor` says about TLS: whether a certificate can be used, for how long, and for which name.
import { isIP } from 'node:net';
import type { Check } from '../lib/check.ts';
import { type Config, isOpenWithoutTls } from '../settings/config.ts';
import { openTls, readCertificate, serviceTlsFiles, type TlsFiles } from './files.ts';

type Certificate = {
  check: string;
  files: TlsFiles;
  /** Made by the service itself. */
  isSelfSigned: boolean;
  /** The name by which clients connect, and what to do if the certificate does not have it. */
  name: { text: string; todo: string } | null;
  /** The beginning of the settings that name the files. */
  settings: string;
  now?: number;
};

const soonDays = 14;

export function examineServiceTls(config: Config, now = Date.now()): Check[] {
  const check = 'TLS';
  const files = serviceTlsFiles(config);
  if (files) {
    const [host] = config.consoleHosts ?? [];
    const text = config.publicHost ?? host?.replace(/:\d+$/, '');
    const name = text === undefined ? null : { text, todo: 'Use a certificate that has this name.' };
    return [examineCertificate({ check, files, isSelfSigned: false, name, settings: 'ROWHOUSE_TLS', now })];
  }
  if (!isOpenWithoutTls(config)) return [];
  return [
    {
      check,
      state: 'warning',
      found: `other machines reach ${config.host}:${config.port} without TLS`,
      todo: 'Set ROWHOUSE_TLS_CERT and ROWHOUSE_TLS_KEY, or put a proxy with TLS in front and name it in ROWHOUSE_TRUSTED_PROXIES.',
    },
  ];
}

export function examineCertificate(asked: Certificate): Check {
  const { check, files, isSelfSigned, name, settings, now = Date.now() } = asked;
  try {
    openTls(files, () => {});
    const certificate = readCertificate(files);
    const { validTo } = certificate;
    const days = Math.floor((Date.parse(validTo) - now) / 86_400_000);
    const todo = isSelfSigned
      ? `Remove ${files.certificate} and ${files.key}; the next start makes new ones.`
      : 'Renew the certificate. A running service uses the new files within seconds.';
    if (days < 0) return { check, state: 'problem', found: `the certificate has expired (${validTo})`, todo };
    if (days < soonDays)
      return { check, state: 'warning', found: `the certificate expires in ${days} days`, todo };
    const isNamed =
      name && (isIP(name.text) ? certificate.checkIP(name.text) : certificate.checkHost(name.text));
    if (name && !isSelfSigned && !isNamed) {
      const found = `the certificate is not for ${name.text}, the name by which clients connect`;
      return { check, state: 'warning', found, todo: name.todo };
    }
    const kind = isSelfSigned ? 'self-signed certificate' : files.certificate;
    return { check, state: 'ok', found: `${kind}, valid for ${days} days` };
  } catch (error) {
    if (isSelfSigned && (error as Error).message.includes('ENOENT'))
      return { check, state: 'ok', found: 'a self-signed certificate will be created at the start' };
    const todo = `Check ${settings}_CERT and ${settings}_KEY.`;
    return { check, state: 'problem', found: (error as Error).message, todo };
  }
}
