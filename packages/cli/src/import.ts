// rowhouse projects import: makes a project from a dump or from another server, and waits until it is filled.
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ImportFrom, ImportResponse, Job, JobResponse } from '@rowhouse/api';
import { type ApiOptions, callApi, upload } from './api.ts';
import { failure } from './failure.ts';
import { progressOf, show } from './output.ts';
import { clean, formatFields } from './table.ts';

type ImportOptions = ApiOptions & { name: string; limitMb?: number; slug?: string };

/** How often progress is asked for. */
const lookMs = 500;

export async function importProject(source: string, options: ImportOptions): Promise<void> {
  const input = {
    name: options.name,
    ...(options.limitMb !== undefined && { limit_mb: options.limitMb }),
    ...(options.slug !== undefined && { slug: options.slug }),
  };
  const tell = progressOf(options);
  const started = /^postgres(?:ql)?:\/\//.test(source)
    ? await callApi<ImportResponse>(options, 'POST', ['projects', 'import'], {
        body: { ...input, from: source } satisfies ImportFrom,
      })
    : await sendDump(source, input, options, tell);
  const { project, api_key: key } = started;
  // At once: the key is shown only once, and the wait can be interrupted.
  if (!options.json)
    show(options, project, ({ slug }) =>
      formatFields([
        ['slug', slug],
        ['key', `${key}   This key is shown only once. Store it now.`],
        ['job', started.job.id],
      ]),
    );
  const job = await waitFor(started.job, options, tell);
  if (options.json) show(options, { ...started, job }, () => '');
  else show(options, job, describe);
  if (job.status !== 'done') process.exitCode = 1;
}

/** `-`: stdin. */
async function sendDump(
  source: string,
  query: Record<string, string | number>,
  options: ImportOptions,
  tell: (text: string | null) => void,
): Promise<ImportResponse> {
  const file = source === '-' ? null : await openFile(source);
  const size = file ? (await file.stat()).size : 0;
  const stream = file ? file.createReadStream() : process.stdin;
  let sent = 0;
  async function* counting() {
    for await (const piece of stream as AsyncIterable<Buffer>) {
      sent += piece.length;
      tell(
        size > 0 ? `sent ${Math.floor((100 * sent) / size)} %` : `sent ${Math.floor(sent / 1024 / 1024)} MB`,
      );
      yield piece;
    }
  }
  try {
    return await upload<ImportResponse>(options, ['projects', 'import'], query, counting());
  } finally {
    tell(null);
    await file?.close();
  }
}

async function openFile(name: string) {
  try {
    const file = await open(name, 'r');
    if (!(await file.stat()).isDirectory()) return file;
    await file.close();
  } catch (error) {
    throw failure('not_readable', `The dump cannot be read: ${(error as Error).message}.`);
  }
  throw failure(
    'not_readable',
    `${name} is a folder.`,
    'Dump with --format=custom or --format=plain: dumps of the format "directory" cannot be imported.',
  );
}

async function waitFor(
  first: Job,
  options: ImportOptions,
  tell: (text: string | null) => void,
): Promise<Job> {
  let job = first;
  while (job.status === 'running') {
    tell(`imported ${Math.floor(job.progress * 100)} %`);
    await sleep(lookMs);
    job = (await callApi<JobResponse>(options, 'GET', ['jobs', job.id])).job;
  }
  tell(null);
  return job;
}

type Report = {
  tables: number;
  rows: number;
  users: number;
  skipped: { entry: string; reason: string }[];
  skipped_count: number;
};

function describe({ status, error, result }: Job): string {
  if (status !== 'done' || !result) {
    const lines = [
      `The import ${status === 'cancelled' ? 'was cancelled' : 'failed'}. Nothing was left behind.`,
    ];
    if (error) lines.push(error.message);
    if (error?.hint) lines.push(`→ ${error.hint}`);
    return lines.map(clean).join('\n');
  }
  const { tables, rows, users, skipped, skipped_count: count } = result as Report;
  const more = count - skipped.length;
  return [
    `Imported ${tables} tables, ${rows} rows and ${users} users.`,
    ...skipped.map(({ entry, reason }) => clean(`skipped  ${entry}: ${reason}`)),
    ...(more > 0 ? [`skipped  ${more} more`] : []),
  ].join('\n');
}
