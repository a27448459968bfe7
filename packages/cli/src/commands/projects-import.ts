// rowhouse projects import: makes a project from a dump or from another server, and waits until it is filled.
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CreateProject, ImportFrom, ImportResponse, Job, JobResponse, Upload } from '@rowhouse/api';
import { type ApiOptions, callApi } from '../api.ts';
import { Failure, failure } from '../failure.ts';
import { progressOf, show } from '../output.ts';
import { isDone, skippedLines } from '../skipped.ts';
import { startedFields } from '../started.ts';
import { clean, counted } from '../table.ts';
import { importUpload, uploadDump } from '../upload.ts';

type ImportOptions = ApiOptions & {
  name: string;
  limitMb?: number;
  slug?: string;
  upload?: string;
  allowLosses?: boolean;
};

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
  if (!options.json) show(options, started, ({ job }) => startedFields(project.slug, key, job.id));
  const job = await waitFor(started.job, options, tell);
  if (options.json) show(options, { ...started, job }, () => '');
  else show(options, job, describe);
  if (job.status !== 'done' && !(job.status === 'done_with_losses' && options.allowLosses))
    process.exitCode = 1;
}

/** `-`: stdin. */
async function sendDump(
  source: string,
  input: CreateProject,
  options: ImportOptions,
  tell: (text: string | null) => void,
): Promise<ImportResponse> {
  if (source === '-' && options.upload)
    throw failure('invalid_request', 'An upload can be continued only with a file, not with stdin.');
  const file = source === '-' ? null : await openFile(source);
  let upload: Upload | null = null;
  try {
    const found = await file?.stat();
    const bytes = found?.isFile() ? found.size : null;
    if (bytes === 0) throw failure('not_readable', 'The dump is empty.');
    const from = (start: number): AsyncIterable<Buffer> =>
      file ? file.createReadStream({ autoClose: false, ...(start > 0 && { start }) }) : process.stdin;
    const { limit_mb } = input;
    const wanted = { ...(limit_mb !== undefined && { limit_mb }), ...(bytes !== null && { bytes }) };
    const onBegun = (begun: Upload) => {
      upload = begun;
    };
    const whole = await uploadDump(options, { from, bytes }, wanted, { id: options.upload, onBegun, tell });
    if (whole.offset === 0) throw failure('not_readable', 'The dump is empty.');
    return await importUpload(options, input, whole, tell);
  } catch (error) {
    throw await explainLeft(error, upload, file !== null, options);
  } finally {
    tell(null);
    await file?.close();
  }
}

/** A file can be sent further by the next command; of stdin, what was sent is of no use any more. */
async function explainLeft(error: unknown, upload: Upload | null, isFile: boolean, options: ImportOptions) {
  if (!upload || !(error instanceof Failure)) return error;
  // More of a file in the wrong format is of no use either.
  if (!isFile || error.body.error.code === 'invalid_dump') {
    await callApi(options, 'DELETE', ['uploads', upload.id]).catch(() => {});
    return error;
  }
  const { hint, ...rest } = error.body.error;
  const next = `The uploaded part is kept for 24 hours: add --upload ${upload.id} to continue.`;
  return new Failure({ ...error.body, error: { ...rest, hint: hint ? `${hint} ${next}` : next } });
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
};

function describe(job: Job): string {
  const { status, error, result } = job;
  if (!isDone(job) || !result) {
    const lines = [
      `The import ${status === 'cancelled' ? 'was cancelled' : 'failed'}. Nothing was left behind.`,
    ];
    if (error) lines.push(error.message);
    const hint =
      error?.code === 'project_full' ? 'Import it again with a larger limit: --limit-mb.' : error?.hint;
    if (hint) lines.push(`→ ${hint}`);
    return lines.map(clean).join('\n');
  }
  const { tables, rows, users } = result as Report;
  const taken = `Imported ${counted(tables, 'table')}, ${counted(rows, 'row')} and ${counted(users, 'user')}.`;
  if (status === 'done') return [taken, ...skippedLines(job)].join('\n');
  // The project is ready, so only the exit status stops a script: what is missing comes first.
  return [...skippedLines(job), taken, lossHint].join('\n');
}

const lossHint =
  '→ The project is ready with what was taken. Change the dump and import it again, or accept the losses: with --allow-losses, the exit status is 0.';
