// A dump of a PostgreSQL server elsewhere. The caller chooses the address, so the service must not be led into networks that
// only it can reach: the name is resolved once, every address is judged, and the connection goes to the address that was
// judged. Always by WebAssembly: an installed pg_dump would resolve the name again.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { errors } from '../../errors/errors.ts';
import { isElsewhere, withoutBrackets } from '../../lib/networks.ts';
import type { Address } from '../../postgres/admin/database.ts';
import { DumpError } from '../export/pg-dump.ts';
import { dumpByWasm } from '../export/wasm.ts';

export type Remote = Readonly<{ address: Address; name: string }>;

const hint = 'Send an address such as postgres://user:password@db.example.com:5432/database?sslmode=require.';

/** Reads the address, without a look at the network. */
export function readRemote(from: string): Remote {
  const bad = (problem: string) => errors.invalidRequest([{ path: 'from', problem }], hint);
  if (!URL.canParse(from)) throw bad('is not an address');
  const url = new URL(from);
  if (url.protocol !== 'postgres:' && url.protocol !== 'postgresql:')
    throw bad('must begin with postgres://');
  const name = withoutBrackets(url.hostname);
  // A Unix socket would be written as %2Fpath, or as the parameter host.
  if (name === '' || name.includes('%') || name.includes('/')) throw bad('has no host');
  for (const parameter of url.searchParams.keys())
    if (!knownParameters.has(parameter)) throw bad(`has the unknown parameter "${parameter.slice(0, 40)}"`);
  const mode = url.searchParams.get('sslmode') ?? 'require';
  if (!(mode in tlsOf)) throw bad('has an unknown sslmode: use require, verify-full or disable');
  const read = (text: string, what: string) => {
    try {
      const value = decodeURIComponent(text);
      if (value.includes('\0')) throw bad(`has a NUL character in its ${what}`);
      return value;
    } catch {
      throw bad(`has a ${what} that is not encoded correctly`);
    }
  };
  const user = read(url.username, 'user');
  const database = read(url.pathname.slice(1), 'database');
  if (user === '' || database === '') throw bad('must name a user and a database');
  if (/[=\s]|^postgres(?:ql)?:/.test(database)) throw bad('has a database name that cannot be used');
  const tls = tlsOf[mode as keyof typeof tlsOf];
  return {
    name,
    address: {
      host: name,
      port: url.port === '' ? 5432 : Number(url.port),
      user,
      database,
      password: read(url.password, 'password'),
      tls: tls && { ...tls, ...(isIP(name) === 0 && { servername: name }) },
    },
  };
}

const knownParameters = new Set(['sslmode', 'channel_binding', 'application_name', 'connect_timeout']);
const tlsOf = {
  require: { rejectUnauthorized: false },
  'verify-ca': { rejectUnauthorized: true },
  'verify-full': { rejectUnauthorized: true },
  disable: false,
} as const;

/** The address to which the connection goes. */
export async function resolveRemote({ address, name }: Remote, allowPrivate: boolean): Promise<Address> {
  const found = await lookup(name, { all: true }).catch(() => {
    throw errors.importSource(`The host "${name.slice(0, 100)}" cannot be found.`);
  });
  const usable = found.find(
    ({ address: ip, family }) => allowPrivate || isElsewhere(ip, family === 6 ? 'ipv6' : 'ipv4'),
  );
  if (!usable) throw errors.importSourcePrivate();
  return { ...address, host: usable.address };
}

/** The dump as it comes. */
export async function* dumpRemote(
  remote: Remote,
  allowPrivate: boolean,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const address = await resolveRemote(remote, allowPrivate);
  const stalled = new AbortController();
  const ending = AbortSignal.any([signal, stalled.signal]);
  const stall = () => stalled.abort(errors.importSource('The server has sent nothing for two minutes.'));
  const timer = setTimeout(stall, stallMs);
  try {
    const env = { PGPASSWORD: address.password, PGAPPNAME: 'rowhouse', ...environment };
    for await (const piece of dumpByWasm({ address, env, args: argumentsFor(remote), signal: ending })) {
      timer.refresh();
      yield piece;
    }
  } catch (error) {
    signal.throwIfAborted();
    stalled.signal.throwIfAborted();
    if (error instanceof DumpError) throw errors.importSource(error.message.replace(throughSocket, ''));
    // Not the error itself: it may name the address with its password.
    throw errors.importSource(`The connection failed (${codeOf(error)}).`);
  } finally {
    clearTimeout(timer);
  }
}

const stallMs = 120_000;
/** To pg_dump, the service is the server. */
const throughSocket = /^connection to server on socket "[^"]*" failed: (?:FATAL: +)?/;
/** TLS ends in the socket of the service. */
const environment = { PGCLIENTENCODING: 'UTF8', PGSSLMODE: 'disable', PGGSSENCMODE: 'disable' };

function argumentsFor({ address, name }: Remote): string[] {
  const isSupabase = /\.supabase\.(?:co|com|net)$/.test(name);
  return [
    ...['--format=custom', '--compress=gzip:1', '--lock-wait-timeout=60000', '--no-password'],
    ...['--no-subscriptions', '--no-security-labels', '--no-tablespaces'],
    // Their tables cannot be read by the role that Supabase gives to its users.
    ...(isSupabase
      ? ['vault', 'pgsodium', 'supabase_functions'].map((schema) => `--exclude-schema=${schema}`)
      : []),
    `--username=${address.user}`,
    `--dbname=${address.database}`,
  ];
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code.slice(0, 40) : 'no answer';
}
