// Access tokens are verified by programs that know nothing of ours but the project key: jose, and the examples' clients.
import { execFile, spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { jwtVerify } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Claims,
  issuerOf,
  signToken,
  tokenLifetimeS,
} from '../../../src/access/end-users/access-tokens.ts';
import { makeKey } from '../../../src/keys/form.ts';
import { buildTimeoutMs, environment, root, skipReason } from '../../support/toolchains.ts';

/** The claims, or null for a token that is refused. */
type Verify = (token: string, secret: string) => Promise<unknown>;

const project = 'my-shop';
const key = { id: 'key_0000000000000000A', secret: makeKey('rh_proj_') };
const nowS = Math.floor(Date.now() / 1000);
const claims: Claims = {
  sub: randomUUID(),
  email: 'zoë+"tag"@exämple.com',
  role: 'authenticated',
  iss: issuerOf(project),
  iat: nowS,
  exp: nowS + tokenLifetimeS,
  sid: randomUUID(),
};

const rustProgram = path.join(environment.CARGO_TARGET_DIR ?? '', 'verify-token');
const languages: Record<string, { verify: Verify; build?: () => Promise<void> }> = {
  jose: { verify: verifyWithJose },
  python: { verify: verifyWith('python3', 'verify.py') },
  go: { verify: verifyWith('go', 'run', 'verify.go') },
  rust: { verify: verifyWith(rustProgram), build: buildRust },
  curl: { verify: verifyWith('sh', 'verify.sh') },
};

for (const [language, { verify, build }] of Object.entries(languages)) {
  const reason = language === 'jose' ? null : skipReason(language, `no token was verified with ${language}`);

  describe.skipIf(reason !== null)(`a token in ${language}`, () => {
    if (build) beforeAll(build, buildTimeoutMs);

    it('is valid with the project key and has all claims', { timeout: buildTimeoutMs }, async () => {
      expect(await verify(signToken(key, claims), key.secret)).toEqual(claims);
    });

    it.each(Object.entries(badTokens()))('is refused: %s', { timeout: buildTimeoutMs }, async (_, token) => {
      expect(await verify(token, key.secret)).toBeNull();
    });
  });
}

function badTokens(): Record<string, string> {
  const [header, payload, signature] = signToken(key, claims).split('.');
  const [, otherPayload] = signToken(key, { ...claims, role: 'admin' }).split('.');
  return {
    'claims that were changed': `${header}.${otherPayload}.${signature}`,
    'of another key': signToken({ ...key, secret: makeKey('rh_proj_') }, claims),
    expired: signToken(key, { ...claims, iat: nowS - tokenLifetimeS - 60, exp: nowS - 60 }),
    'of another project': signToken(key, { ...claims, iss: issuerOf('my-shop-2') }),
    'without algorithm': `${encode({ alg: 'none' })}.${payload}.`,
    'with another algorithm': signedAs({ alg: 'HS512' }, claims),
    'without expiry': signedAs({ alg: 'HS256' }, { ...claims, exp: undefined }),
    'without signature': `${header}.${payload}`,
    'with a part too many': `${header}.${payload}.${signature}.${signature}`,
    'signature with something behind it': `${header}.${payload}.${signature}A`,
    'not a token': 'zoë $(reboot) `reboot` %n',
    empty: '',
  };
}

function signedAs(header: object, body: object): string {
  const signed = `${encode(header)}.${encode(body)}`;
  return `${signed}.${createHmac('sha256', key.secret).update(signed).digest('base64url')}`;
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

async function verifyWithJose(token: string, secret: string): Promise<unknown> {
  const options = { algorithms: ['HS256'], issuer: claims.iss, requiredClaims: ['exp'] };
  const result = await jwtVerify(token, new TextEncoder().encode(secret), options).catch((error) => {
    expect(error.code).toMatch(/^ERR_(JOSE|JWS|JWT)_/);
    return null;
  });
  return result?.payload ?? null;
}

/** A program in tokens/ that reads token, key and project, and writes the claims or "refused". */
function verifyWith(command: string, ...args: string[]): Verify {
  return async (token, secret) => {
    const cwd = path.join(import.meta.dirname, 'tokens');
    const program = spawn(command, args, { cwd, env: environment });
    program.stdin.end(`${token}\n${secret}\n${project}\n`);
    const [output, problem] = await Promise.all([text(program.stdout), text(program.stderr)]);
    if (output === '') {
      expect(problem).toMatch(/^refused: /);
      return null;
    }
    return JSON.parse(output);
  };
}

/** Against the example's library as cargo has built it: a crate of its own would need a second lock file. */
async function buildRust(): Promise<void> {
  const target = environment.CARGO_TARGET_DIR ?? '';
  const run = promisify(execFile);
  const options = { cwd: path.join(root, 'examples/rust'), env: environment };
  await run('cargo', ['build', '--quiet', '--lib'], options);
  const library = `rowhouse=${path.join(target, 'debug/librowhouse.rlib')}`;
  const search = `dependency=${path.join(target, 'debug/deps')}`;
  const source = path.join(import.meta.dirname, 'tokens/verify.rs');
  await run(
    'rustc',
    ['--edition=2021', '-o', rustProgram, '--extern', library, '-L', search, source],
    options,
  );
}
