// The logs of the service: JSON lines, to files of limited size or to stderr. Keys, tokens and passwords are removed from
// every line.
import { mkdirSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import pino, { type Logger } from 'pino';
import type { Config } from '../settings/config.ts';

const maxBytes = 16 * 1024 * 1024;
/** How much waits in memory while the file cannot be written; further lines are lost. Without a limit, it reached 145 MB in a second. */
const maxWaitingBytes = 256 * 1024;

type Settings<Name extends keyof Config> = Pick<Config, 'dataFolder' | Name>;

export function openLog({ dataFolder, logLevel: level, logTo }: Settings<'logLevel' | 'logTo'>): Logger {
  const serializers = { err: pino.stdSerializers.errWithCause };
  const options = { ...common, level, base: { pid: process.pid }, serializers };
  return pino(options, logTo === 'stderr' ? openStderr() : openFile(dataFolder, 'rowhouse.log'));
}

/** A line for each request. null: the operator does not want it. */
export function openRequestLog({ dataFolder, requestLog }: Settings<'requestLog'>): Logger | null {
  if (requestLog === 'off') return null;
  // Instead of the level, which is always the same. On stderr it tells the two logs apart.
  const options = { ...common, base: null, formatters: { level: () => ({ log: 'requests' }) } };
  return pino(options, requestLog === 'stderr' ? openStderr() : openFile(dataFolder, 'requests.log'));
}

const common = {
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: { level: (level: string) => ({ level }) },
  hooks: { streamWrite: withoutSecrets },
} satisfies pino.LoggerOptions;

function openStderr(): pino.DestinationStream {
  return pino.destination({ fd: 2, sync: true });
}

function openFile(dataFolder: string, name: string): pino.DestinationStream {
  const file = path.join(dataFolder, 'logs', name);
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const destination = pino.destination({
    dest: file,
    append: true,
    mode: 0o600,
    sync: true,
    maxLength: maxWaitingBytes,
  });
  let inode = statSync(file, { throwIfNoEntry: false })?.ino;
  // With a full disk, the service loses log lines, but keeps running.
  destination.on('error', () => {});
  const rotate = () => {
    const now = statSync(file, { throwIfNoEntry: false });
    if (now && now.size > maxBytes) renameSync(file, `${file}.1`);
    // Another process of the service may have renamed the file: then this one still writes to the old file.
    else if (now && now.ino === inode) return;
    destination.reopen();
    inode = statSync(file, { throwIfNoEntry: false })?.ino;
  };
  const rotateIfPossible = () => {
    try {
      rotate();
    } catch {
      // There may be more space in a minute.
    }
  };
  rotateIfPossible();
  // A flood of failures can exceed the size limit within a minute.
  let written = 0;
  destination.on('write', (bytes: number) => {
    written += bytes;
    if (written < maxBytes / 16) return;
    written = 0;
    setImmediate(rotateIfPossible);
  });
  setInterval(rotateIfPossible, 60_000).unref();
  return destination;
}

/** Removes API keys, tokens, one-time codes, SCRAM verifiers and passwords in URLs, wherever they occur in a line. */
export function withoutSecrets(line: string): string {
  return line
    .replace(/\brh_(acct|proj|pub|oper|code|act)_[0-9A-Za-z]+/g, 'rh_$1_…')
    .replace(/\brh_(ref|link|cookie|token|invite|recover|email)_[\w-]+/g, 'rh_$1_…')
    .replace(/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, 'eyJ…')
    .replace(/SCRAM-SHA-256\$[^'"\s]+/g, 'SCRAM-SHA-256$…')
    .replace(/((?:postgres(?:ql)?|smtps?):\/\/[^:/@\s"]+):[^@\s"]+@/g, '$1:…@');
}
