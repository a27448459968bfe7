// A user's access token, verified with the project key alone: no request, no library.
export type Claims = { sub: string; email: string; role: string; iss: string; iat: number; exp: number };

/** Throws unless the token was made by this project and is still good. A sign-out before its end only the service knows. */
export async function verifyToken(token: string, projectKey: string, project: string): Promise<Claims> {
  const [head = '', body = '', signature = '', ...others] = token.split('.');
  if (others.length > 0) throw new Error('This is no token.');
  const key = await crypto.subtle.importKey(
    'raw',
    new TextEncoder().encode(projectKey),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['verify'],
  );
  const signed = new TextEncoder().encode(`${head}.${body}`);
  const isSigned = await crypto.subtle.verify('HMAC', key, fromBase64Url(signature), signed);
  // Before anything of it is read.
  if (!isSigned) throw new Error('The token is forged.');
  const { alg } = JSON.parse(fromBase64Url(head).toString()) as { alg: string };
  if (alg !== 'HS256') throw new Error('The token is signed in another way.');
  const claims = JSON.parse(fromBase64Url(body).toString()) as Claims;
  if (claims.iss !== `rowhouse-auth:${project}`) throw new Error('The token is of another project.');
  if (!(claims.exp * 1000 > Date.now())) throw new Error('The token has expired.');
  return claims;
}

function fromBase64Url(text: string): Buffer<ArrayBuffer> {
  return Buffer.from(text, 'base64url');
}
