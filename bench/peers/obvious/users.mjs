// Runs a statement for the user of a token: verifies the token (HS256 with the secret in JWT_SECRET), begins, sets the role and the
// claims in one statement, runs, commits. Whether the user's session still exists is not checked.
import { createHmac, timingSafeEqual } from 'node:crypto';

export async function asUser(pool, request, run) {
  const claims = verify(request.headers.authorization);
  const client = await pool.connect();
  try {
    await client.query('begin');
    await client.query(
      "select set_config('role', 'authenticated', true), set_config('request.jwt.claims', $1, true)",
      [claims],
    );
    const result = await run(client);
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
}

/** The claims as JSON. */
function verify(authorization = '') {
  const [head, payload, signature] = authorization.replace(/^Bearer /, '').split('.');
  const given = Buffer.from(signature ?? '', 'base64url');
  const made = createHmac('sha256', process.env.JWT_SECRET).update(`${head}.${payload}`).digest();
  if (given.length !== made.length || !timingSafeEqual(given, made)) throw refusal();
  const claims = Buffer.from(payload, 'base64url').toString();
  if (JSON.parse(claims).exp * 1000 < Date.now()) throw refusal();
  return claims;
}

function refusal() {
  return Object.assign(new Error('The token is not valid.'), { statusCode: 401 });
}
