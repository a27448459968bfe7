// rowhouse projects export: writes a project to a file, or to stdout. A file gets its name only when it is complete.
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ExportFormat } from '@rowhouse/api';
import { type ApiOptions, openDownload } from '../api.ts';
import { counter, sizeOf } from '../counter.ts';
import { failure } from '../failure.ts';
import { progressOf, show } from '../output.ts';
import { clean } from '../table.ts';

export const formats: readonly ExportFormat[] = ['custom', 'sql', 'csv'];
const endings: Record<ExportFormat, string> = { custom: 'dump', sql: 'sql', csv: 'zip' };

type ExportOptions = ApiOptions & { format: ExportFormat; output?: string };

export async function exportProject(slug: string, options: ExportOptions): Promise<void> {
  const { format, output = `${slug}.${endings[format]}` } = options;
  const toStdout = output === '-';
  const body = await openDownload(options, ['projects', slug, 'export'], { format });
  // stdout is the export itself.
  const count = counter(progressOf({ json: toStdout ? false : (options.json ?? false) }));
  if (toStdout) {
    await transfer(body, count.stream, process.stdout, count.stop);
    return;
  }
  // A name that is not known before, and only a new file: one that another user has put there could be read by that user.
  const part = `${output}.${randomBytes(6).toString('hex')}.part`;
  try {
    // It holds password hashes.
    const target = createWriteStream(part, { mode: 0o600, flags: 'wx' });
    await transfer(body, count.stream, target, count.stop);
    await rename(part, output);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  const answer = { ok: true, file: output, bytes: count.bytes() };
  show(options, answer, ({ file, bytes }) => clean(`Exported ${slug} to ${file} (${sizeOf(bytes)}).`));
}

async function transfer(
  body: AsyncIterable<Uint8Array>,
  counting: Transform,
  target: Writable,
  stop: () => void,
): Promise<void> {
  try {
    // Another command of the same script may write to stdout next.
    await pipeline(body, counting, target, { end: target !== process.stdout });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // An error of the file or the pipe: the system's own words say it best.
    if (code?.startsWith('E') && !code.startsWith('ERR_') && code !== 'ECONNRESET')
      throw failure('not_written', `The export could not be written: ${message}.`);
    throw failure(
      'broken_off',
      'The export broke off before it was complete.',
      "Run the command again. If it breaks off again, the service's log has the reason.",
    );
  } finally {
    stop();
  }
}
