// Access tokens are verified by programs that know nothing of ours but the project key: jose, Python and Go.
import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { jwtVerify } from 'jose';
import { describe, expect, it } from 'vitest';
import { makeKey } from '../src/keys/form.ts';
import { type Claims, issuerOf, signToken, tokenLifetimeS } from '../src/users/access-tokens.ts';

/** The claims, or null for a token that is refused. */
type Verify = (token: string, secret: string) => Promise<unknown>;

const key = { id: 'key_0000000000000000A', secret: makeKey('rh_proj_') };
const nowS = Math.floor(Date.now() / 1000);
const claims: Claims = {
  sub: randomUUID(),
  email: 'zoë+"tag"@exämple.com',
  role: 'authenticated',
  iss: issuerOf('my-shop'),
  iat: nowS,
  exp: nowS + tokenLifetimeS,
  sid: randomUUID(),
};

/** Go may have to compile its standard library first. */
const timeoutMs = 120_000;

const env = environment();
const languages: Record<string, { isThere: boolean; verify: Verify }> = {
  jose: { isThere: true, verify: verifyWithJose },
  Python: { isThere: runs('python3', ['--version']), verify: verifyWith('python3', ['verify.py']) },
  Go: { isThere: runs('go', ['version']), verify: verifyWith('go', ['run', 'verify.go']) },
};

for (const [language, { isThere, verify }] of Object.entries(languages)) {
  if (!isThere) console.warn(`SKIPPED: ${language} is not installed, so no token was verified with it.`);

  describe.skipIf(!isThere)(`a token in ${language}`, () => {
    it('is good with the project key, and has all its claims', { timeout: timeoutMs }, async () => {
      expect(await verify(signToken(key, claims), key.secret)).toEqual(claims);
    });

    it('is refused when tampered with, expired or of another key', { timeout: timeoutMs }, async () => {
      const token = signToken(key, claims);
      const [header, , signature] = token.split('.');
      const [, payload] = signToken(key, { ...claims, role: 'admin' }).split('.');
      expect(await verify(`${header}.${payload}.${signature}`, key.secret)).toBeNull();
      expect(await verify(token, makeKey('rh_proj_'))).toBeNull();
      const old = { ...claims, iat: nowS - tokenLifetimeS - 60, exp: nowS - 60 };
      expect(await verify(signToken(key, old), key.secret)).toBeNull();
    });
  });
}

async function verifyWithJose(token: string, secret: string): Promise<unknown> {
  const options = { algorithms: ['HS256'], issuer: claims.iss };
  const result = await jwtVerify(token, new TextEncoder().encode(secret), options).catch((error) => {
    expect(error.code).toMatch(/^ERR_(JWS|JWT)_/);
    return null;
  });
  return result?.payload ?? null;
}

/** A program in tokens/ that reads the token and the key, and writes the claims or "refused". */
function verifyWith(command: string, args: string[]): Verify {
  return async (token, secret) => {
    const cwd = fileURLToPath(new URL('tokens', import.meta.url));
    const program = spawn(command, args, { cwd, env, timeout: timeoutMs });
    program.stdin.end(`${token}\n${secret}\n`);
    const [output, problem] = await Promise.all([text(program.stdout), text(program.stderr)]);
    if (output === '') {
      expect(problem).toContain('refused: ');
      return null;
    }
    return JSON.parse(output);
  };
}

function runs(command: string, args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore', env }).status === 0;
}

/** Go writes into the home folder; where it cannot, into a temporary one. */
function environment(): NodeJS.ProcessEnv {
  const go = { GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local' };
  try {
    accessSync(homedir(), constants.W_OK);
    return { ...process.env, ...go };
  } catch {
    const home = path.join(tmpdir(), 'rowhouse-go');
    mkdirSync(home, { recursive: true });
    return { ...process.env, ...go, HOME: home, GOCACHE: path.join(home, 'cache'), GOPATH: home };
  }
}
