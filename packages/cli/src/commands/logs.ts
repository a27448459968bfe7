// rowhouse logs: the log of the service on this machine, from its file or from systemd's journal; or the recent failures and
// slow statements of a project, from the service.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoggedRequest, LogsResponse } from '@rowhouse/api';
import { settings } from '@rowhouse/api/settings';
import { type Command, Option } from 'commander';
import { type ApiOptions, callApi, withApiOptions } from '../api.ts';
import { failure } from '../failure.ts';
import { type LogFile, openLogFile } from '../log-file.ts';
import { positive } from '../numbers.ts';
import { environmentOf, withSettings } from '../settings.ts';
import { clean } from '../table.ts';

type Options = ApiOptions & {
  follow?: boolean;
  lines: number;
  level: Level;
  requests?: boolean;
  journal?: string | true;
};
type Level = (typeof levels)[number];

const levels = ['debug', 'info', 'warn', 'error'] as const;
const unit = 'rowhouse';
const pollMs = 2_000;

export function addLogs(program: Command): void {
  const command = program
    .command('logs [project]')
    .summary('show the log of the service, or the recent failures of a project')
    .description(
      'Show the log of the service on this machine. With a project: its recent failures and slow statements, from a ' +
        'running service on any machine. With --json, each line is the JSON of one entry.',
    );
  withSettings(withApiOptions(command), ['ROWHOUSE_DATA'])
    .option('-f, --follow', 'wait for new entries and show them')
    .option('-n, --lines <number>', 'how many entries to begin with', positive, 50)
    .addOption(new Option('--level <level>', 'the lowest level to show').choices(levels).default('info'))
    .option('--requests', 'the log of all requests, if ROWHOUSE_REQUEST_LOG is file')
    .option('--journal [unit]', `systemd's journal instead of the file, of this unit (default: ${unit})`)
    .action(logs);
}

async function logs(project: string | undefined, options: Options): Promise<void> {
  const stopped = new AbortController();
  process.once('SIGINT', () => stopped.abort());
  if (project !== undefined) return ofProject(project, options, stopped.signal);
  if (options.journal) return ofJournal(options, stopped.signal);
  const data = environmentOf(options).ROWHOUSE_DATA ?? settings.ROWHOUSE_DATA.default;
  const file = path.resolve(data, 'logs', options.requests ? 'requests.log' : 'rowhouse.log');
  const log = open(file);
  try {
    const wanted = log.lines.filter((line) => isWanted(line, options.level));
    for (const line of wanted.slice(-options.lines)) print(line, options);
    if (!options.follow) return;
    for await (const line of log.follow(stopped.signal))
      if (isWanted(line, options.level)) print(line, options);
  } finally {
    log.close();
  }
}

function open(file: string): LogFile {
  try {
    return openLogFile(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const hints: Record<string, string> = {
      ENOENT: file.endsWith('requests.log')
        ? 'Start the service with --request-log file, or name its data folder with --data.'
        : 'Name the data folder of the service with --data. If it logs to stderr under systemd: rowhouse logs --journal',
      EACCES: 'Run the command as the user of the service, or as root.',
    };
    throw failure('file_not_readable', `${clean(file)} cannot be read (${code}).`, hints[code ?? '']);
  }
}

async function ofJournal({ journal, ...options }: Options, signal: AbortSignal): Promise<void> {
  const name = journal === true ? unit : (journal ?? unit);
  const args = ['--unit', name, '--output', 'cat', '--no-pager', '--lines', String(options.lines)];
  const child = spawn('journalctl', [...args, ...(options.follow ? ['--follow'] : [])], {
    stdio: ['ignore', 'pipe', 'inherit'],
    signal,
  });
  const problem = new Promise<Error | null>((resolve) => {
    child.once('error', resolve);
    child.once('close', () => resolve(null));
  });
  for await (const line of createInterface({ input: child.stdout }))
    if (isWanted(line, options.level)) print(line, options);
  if ((await problem) && !signal.aborted) {
    throw failure(
      'no_journal',
      'journalctl could not be run.',
      'Without systemd, use rowhouse logs --data <folder>.',
    );
  }
}

async function ofProject(slug: string, options: Options, signal: AbortSignal): Promise<void> {
  const shown = new Set<string>();
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const found = await callApi<LogsResponse>(options, 'GET', ['projects', slug, 'logs']);
    const entries = new Map([...found.failures, ...found.slow].map((entry) => [keyOf(entry), entry]));
    const fresh = [...entries]
      .filter(([key]) => !shown.has(key))
      .sort(([, a], [, b]) => (a.at < b.at ? -1 : 1));
    for (const [key, entry] of isFirst ? fresh.slice(-options.lines) : fresh) {
      process.stdout.write(`${options.json ? JSON.stringify(entry) : describeEntry(entry)}\n`);
      shown.add(key);
    }
    if (isFirst) for (const key of entries.keys()) shown.add(key);
    if (!options.follow) return;
    await sleep(pollMs, undefined, { signal }).catch(() => {});
  }
}

const keyOf = ({ at, request_id: id }: LoggedRequest) => `${at} ${id}`;

function describeEntry(entry: LoggedRequest): string {
  const { at, status, method, path: target, duration_ms: ms, code, message, statement } = entry;
  const what = [code ?? 'slow', message ?? '', statement ? `| ${statement}` : ''].filter(Boolean).join(' ');
  return clean(`${timeOf(at)} ${status} ${method} ${target} ${ms} ms ${what}`);
}

/** What is not an entry, such as what the start prints, has no level. */
function isWanted(line: string, lowest: Level): boolean {
  const level = levels.indexOf(parse(line)?.level as Level);
  return level < 0 || level >= levels.indexOf(lowest);
}

function print(line: string, { json }: Options): void {
  const entry = parse(line);
  process.stdout.write(`${json && entry ? JSON.stringify(entry) : clean(entry ? describe(entry) : line)}\n`);
}

function describe({ time, level, msg, pid: _pid, log: _log, ...rest }: Record<string, unknown>): string {
  const { err, ...facts } = rest as { err?: { message?: unknown } };
  const told = Object.entries(facts).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return `${name}=${/[\s"=]/.test(text) ? JSON.stringify(text) : text}`;
  });
  const head = [
    timeOf(String(time)),
    String(level ?? '')
      .toUpperCase()
      .padEnd(5),
    msg ?? '',
  ];
  return [
    ...head.filter((part) => String(part).trim() !== ''),
    ...told,
    ...(err?.message ? [`| ${err.message}`] : []),
  ].join(' ');
}

function timeOf(at: string): string {
  return at.replace('T', ' ').replace(/Z$/, '');
}

function parse(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && 'time' in value ? { ...value } : null;
  } catch {
    return null;
  }
}
