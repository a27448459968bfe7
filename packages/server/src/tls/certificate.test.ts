import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createSelfSigned } from './certificate.ts';
import { ensureSelfSigned, openTls, readCertificate } from './files.ts';

const names = ['db.example.com', '192.0.2.1', '2001:db8::1', 'localhost'];

it('makes a certificate for names and addresses, signed by its own key', () => {
  const now = Date.parse('2026-11-16T00:00:00Z');
  const certificate = new X509Certificate(createSelfSigned(names, now).certificate);
  expect(certificate.verify(certificate.publicKey)).toBe(true);
  for (const name of ['db.example.com', 'localhost']) expect(certificate.checkHost(name)).toBe(name);
  expect(certificate.checkHost('example.com')).toBeUndefined();
  expect(certificate.checkIP('192.0.2.1')).toBe('192.0.2.1');
  expect(certificate.subjectAltName).toContain('2001:DB8:0:0:0:0:0:1');
  expect(certificate.ca).toBe(false);
  expect(Date.parse(certificate.validFrom)).toBe(Date.parse('2026-11-15T00:00:00Z'));
  expect(Date.parse(certificate.validTo)).toBe(Date.parse('2036-11-13T00:00:00Z'));
  const late = new X509Certificate(createSelfSigned(names, Date.parse('2045-01-01T00:00:00Z')).certificate);
  expect(new Date(late.validTo).getUTCFullYear()).toBe(2054);
});

it('is made once, private, and replaced files are used', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const files = ensureSelfSigned(folder, names);
  const first = readCertificate(files).fingerprint256;
  expect(readCertificate(ensureSelfSigned(folder, ['other'])).fingerprint256).toBe(first);
  expect(statSync(files.key).mode & 0o777).toBe(0o600);
  expect(statSync(path.dirname(files.key)).mode & 0o777).toBe(0o700);
  const problems: unknown[] = [];
  let now = 0;
  const context = openTls(
    files,
    (error) => problems.push(error),
    () => now,
  );
  const before = context();
  writeFileSync(files.key, 'not a key');
  expect(context()).toBe(before);
  now += 60_000;
  expect(context()).toBe(before);
  expect(problems).toHaveLength(1);
  const renewed = createSelfSigned(names);
  writeFileSync(files.key, renewed.key);
  writeFileSync(files.certificate, renewed.certificate);
  now += 60_000;
  expect(context()).not.toBe(before);
  expect(problems).toHaveLength(1);
  writeFileSync(files.key, readFileSync(files.certificate));
  expect(() => openTls(files, () => {})).toThrow('TLS cannot be offered');
});
