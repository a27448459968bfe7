// Identifies the caller by a connection string instead of an API key, as drivers for PostgreSQL over HTTP send it.
import type { IncomingHttpHeaders } from 'node:http';
import { errors } from '../../../errors/errors.ts';
import type { Caller } from '../../../keys/caller.ts';
import { looksLikeKey } from '../../../keys/form.ts';
import type { ProjectLogin } from '../../../servers/databases/login.ts';
import { databaseOf } from '../../../servers/databases/names.ts';
import type { Deps } from '../../deps.ts';
import { readBearer } from '../../request/caller.ts';
import type { Step } from '../data-request.ts';

const connectionHeader = 'neon-connection-string';

/** The default database of PostgreSQL's tools. */
const usualDatabase = 'postgres';

/**
 * The password is that of the project's role, or an API key with the project's slug as the database. An API key can also
 * come as Authorization: Bearer, which is the driver's `authToken`.
 */
export const identifyByConnection: Step = (request) =>
  findByConnection(request.deps, request.exchange.headers).then(({ caller, login }) => {
    request.caller = caller;
    request.login = login;
  });

async function findByConnection(
  deps: Deps,
  headers: IncomingHttpHeaders,
): Promise<{ caller: Caller; login: ProjectLogin }> {
  const { user, password, database } = readConnectionString(headers[connectionHeader]);
  const bearer = readBearer(headers.authorization);
  if (bearer !== null && password !== '' && password !== bearer) {
    throw errors.invalidRequest(
      [{ path: '', problem: `Authorization and the password in ${connectionHeader} differ` }],
      'Send only one of them.',
    );
  }
  const secret = bearer ?? password;
  if (secret === '') throw errors.missingApiKey(`The address in ${connectionHeader} has no password.`);
  if (bearer !== null || looksLikeKey(secret)) {
    const caller = await deps.keyRing.verify(secret);
    deps.rates.require(caller);
    return { caller, login: await deps.logins.of(caller, slugOf(caller, user, database)) };
  }
  const caller = await deps.keyRing.verifyRole(user, secret);
  deps.rates.require(caller);
  if (database !== databaseOf(caller.projectId)) throw errors.projectNotFound(database);
  const { projectId, serverId, passwordVersion, accountId, keyId } = caller;
  return { caller, login: { id: projectId, serverId, passwordVersion, accountId, caller: keyId } };
}

/** The slug names the database. With a key of a project there is no doubt, so that the slug as the user is enough. */
function slugOf(caller: Caller, user: string, database: string): string {
  if (caller.kind === 'account') return database;
  if (database === databaseOf(caller.projectId)) return caller.slug;
  return database === usualDatabase && user === caller.slug ? caller.slug : database;
}

function readConnectionString(header: string | string[] | undefined): {
  user: string;
  password: string;
  database: string;
} {
  if (typeof header !== 'string' || header === '')
    throw errors.missingApiKey(`This request requires the header ${connectionHeader}.`, form);
  try {
    const { protocol, username, password, pathname, searchParams } = new URL(header);
    if (protocol !== 'postgres:' && protocol !== 'postgresql:') throw new URIError('another protocol');
    if (searchParams.has('options')) {
      throw errors.invalidRequest([
        { path: connectionHeader, problem: 'must not contain "options", which have no effect over HTTP' },
      ]);
    }
    const [user = '', secret = '', database = ''] = [username, password, pathname.slice(1)].map(
      decodeURIComponent,
    );
    return { user, password: secret, database };
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof URIError)) throw error;
    // The value is not quoted: it contains a password.
    throw errors.invalidRequest(
      [{ path: connectionHeader, problem: 'is not a PostgreSQL connection string' }],
      form,
    );
  }
}

const form = 'Send postgres://user:password@host/database. Percent-encode special characters.';
