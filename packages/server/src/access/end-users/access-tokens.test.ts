import { createHmac, createSign, generateKeyPairSync, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { RowhouseError } from '../../errors/errors.ts';
import { makeKey } from '../../keys/form.ts';
import { type Claims, issuerOf, readToken, signToken, tokenLifetimeS } from './access-tokens.ts';

const now = 1_800_000_000_000;
const nowS = now / 1000;
const key = { id: 'key_0000000000000000A', secret: makeKey('rh_proj_') };
const claims: Claims = {
  sub: randomUUID(),
  email: 'ada@example.com',
  role: 'authenticated',
  iss: issuerOf('my-shop'),
  iat: nowS,
  exp: nowS + tokenLifetimeS,
  sid: randomUUID(),
};
const header = { alg: 'HS256', typ: 'JWT', kid: key.id };
const expected = {
  issuer: 'rowhouse-auth:my-shop',
  now,
  secretOf: (kid: string) => (kid === key.id ? key.secret : null),
};

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const base64url = (text: string | Buffer) => Buffer.from(text).toString('base64url');
const signatureOf = (signed: string, secret: string | Buffer = key.secret) =>
  createHmac('sha256', secret).update(signed).digest('base64url');
/** A token of these parts, with a valid signature unless another secret is given. */
const forge = (headerText: string | Buffer, payloadText: string | Buffer, secret?: string | Buffer) => {
  const signed = `${base64url(headerText)}.${base64url(payloadText)}`;
  return `${signed}.${signatureOf(signed, secret)}`;
};
const withHeader = (other: unknown) => forge(JSON.stringify(other), JSON.stringify(claims));
const withPayload = (other: unknown) => forge(JSON.stringify(header), JSON.stringify(other));
const withPayloadText = (text: string | Buffer) => forge(JSON.stringify(header), text);

/** Other spellings of the same bytes: the last character may have unused bits. */
const twinsOf = (part: string) =>
  [...alphabet]
    .map((last) => part.slice(0, -1) + last)
    .filter(
      (other) => other !== part && Buffer.from(other, 'base64url').equals(Buffer.from(part, 'base64url')),
    );

const refusalOf = (token: string, other: Partial<typeof expected> = {}): RowhouseError => {
  try {
    readToken(token, { ...expected, ...other });
  } catch (error) {
    expect(error).toBeInstanceOf(RowhouseError);
    return error as RowhouseError;
  }
  throw new Error(`was taken: ${token.slice(0, 200)}`);
};
/** Refused with a message that does not reveal the reason. */
const expectRefused = (token: string, other: Partial<typeof expected> = {}) => {
  const { code, status, message, hint, details } = refusalOf(token, other);
  expect({ code, status, message, hint, details }).toEqual({
    code: 'invalid_token',
    status: 401,
    message: 'This access token is invalid for this project.',
    hint: 'Get a new one with POST …/auth/signin.',
    details: undefined,
  });
};

describe('a token of ours', () => {
  it('is read as it was made, until its last second', () => {
    const token = signToken(key, claims);
    expect(readToken(token, expected)).toEqual(claims);
    expect(readToken(token, { ...expected, now: claims.exp * 1000 - 1 })).toEqual(claims);
    expect(readToken(token, { ...expected, now: now - 60_000 })).toEqual(claims);
    expect(JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString())).toEqual(header);
  });

  it('is the same whatever the order of the claims, and holds no others', () => {
    const shuffled = Object.fromEntries(Object.entries({ ...claims, password: 'x' }).reverse());
    expect(signToken(key, shuffled as unknown as Claims)).toBe(signToken(key, claims));
  });

  it('holds e-mails in any script', () => {
    for (const email of ['ädä@exämple.com', '愛@例え.jp', '"quoted\\"@example.com', '👩‍🚀@example.com']) {
      expect(readToken(signToken(key, { ...claims, email }), expected).email).toBe(email);
    }
  });

  it('is never made too long to be read again', () => {
    expect(() => signToken(key, { ...claims, role: 'r'.repeat(8000) })).toThrow('too long');
  });

  it('says that it has expired, and only if it was good once', () => {
    const late = { now: claims.exp * 1000 };
    const refusal = refusalOf(signToken(key, claims), late);
    expect(refusal).toMatchObject({ code: 'invalid_token', status: 401 });
    expect(refusal.message).toContain('expired');
    expect(refusal.hint).toContain('/auth/refresh');
    expectRefused(signToken({ ...key, secret: 'another' }, claims), late);
    expectRefused(signToken(key, { ...claims, iss: issuerOf('other') }), late);
  });
});

describe('a forged token', () => {
  it.each(['none', 'None', 'NONE', 'nOnE', ''])(
    'with the algorithm "%s" is refused, signed or not',
    (alg) => {
      const signed = `${base64url(JSON.stringify({ ...header, alg }))}.${base64url(JSON.stringify(claims))}`;
      for (const signature of ['', '.', `.${signatureOf(signed)}`]) expectRefused(signed + signature);
    },
  );

  it('with another algorithm than HS256 is refused', () => {
    const names = ['HS384', 'HS512', 'RS256', 'ES256', 'PS256', 'EdDSA', 'hs256', 'HS256 '];
    for (const alg of [...names, ['HS256'], { HS256: 1 }, null, true, 256]) {
      expectRefused(withHeader({ ...header, alg }));
    }
  });

  it('that confuses a public key with a secret is refused, and so is a real RS256 one', () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = publicKey.export({ type: 'spki', format: 'pem' });
    expectRefused(forge(JSON.stringify(header), JSON.stringify(claims), pem));
    const signed = `${base64url(JSON.stringify({ ...header, alg: 'RS256' }))}.${base64url(JSON.stringify(claims))}`;
    expectRefused(`${signed}.${createSign('sha256').update(signed).sign(privateKey, 'base64url')}`);
  });

  it('by another key, an empty one or the hash of the right one is refused', () => {
    const hash = createHmac('sha256', '').update(key.secret).digest();
    for (const secret of [makeKey('rh_proj_'), '', ' ', `${key.secret} `, key.secret.toLowerCase(), hash]) {
      expectRefused(forge(JSON.stringify(header), JSON.stringify(claims), secret));
    }
  });

  it('of another project is refused, by its key and by its issuer', () => {
    const other = { id: 'key_0000000000000000B', secret: makeKey('rh_proj_') };
    expectRefused(signToken(other, claims));
    expectRefused(signToken(other, { ...claims, iss: issuerOf('other') }));
    expectRefused(signToken({ ...other, id: key.id }, claims));
    expectRefused(signToken({ ...key, id: other.id }, claims));
    const issuers = ['other', 'My-shop', 'my-shop ', 'my-shop/', ''].map(issuerOf);
    for (const iss of [...issuers, 'my-shop', 'supabase-auth:my-shop', ` ${claims.iss}`]) {
      expectRefused(signToken(key, { ...claims, iss }));
    }
  });

  it('whose kid points elsewhere is refused, whatever the secret', () => {
    const elsewhere = [
      '',
      ' ',
      '../../../../dev/null',
      '/dev/null',
      "' union select 'secret",
      'https://example.com/jwks.json',
      '__proto__',
      'constructor',
      'toString',
      `${key.id}\0`,
      `${key.id} `,
      key.id.toLowerCase(),
      key.secret,
      '\ud800',
      'k'.repeat(5000),
    ];
    for (const kid of elsewhere) {
      for (const secret of [key.secret, '', kid]) {
        expectRefused(forge(JSON.stringify({ ...header, kid }), JSON.stringify(claims), secret));
      }
    }
    // A key with an empty secret must not verify anything.
    const unsigned = forge(JSON.stringify(header), JSON.stringify(claims), '');
    expectRefused(unsigned, { secretOf: () => '' });
    expectRefused(unsigned, { secretOf: () => null });
  });

  it('whose kid is not a text is refused before any key is looked for', () => {
    const secretOf = () => {
      throw new Error('looked for a key');
    };
    for (const kid of [null, 1, true, {}, [], [key.id], [[key.id]], { toString: key.id }]) {
      expectRefused(withHeader({ ...header, kid }), { secretOf });
    }
  });

  it('with another header than ours is refused', () => {
    const { alg, typ, kid } = header;
    const others = [
      { alg, typ },
      { alg, kid },
      { typ, kid },
      { typ, alg, kid },
      { kid, alg, typ },
      {},
      [],
      'x',
    ];
    for (const other of [
      ...others,
      null,
      1,
      [header],
      { ...header, typ: 'jwt' },
      { ...header, typ: 'at+jwt' },
    ]) {
      expectRefused(withHeader(other));
    }
    const members = [{ jku: 'https://example.com' }, { x5u: 'https://example.com' }, { crit: ['exp'] }];
    for (const member of [...members, { b64: false }, { zip: 'DEF' }, { jwk: { kty: 'oct', k: '' } }]) {
      expectRefused(withHeader({ ...header, ...member }));
    }
    const text = JSON.stringify(header);
    const texts = [
      `${text} `,
      ` ${text}`,
      `\ufeff${text}`,
      text.replace(':', ': '),
      text.replace('}', ',}'),
      '',
    ];
    const escaped = text.replace('"HS256"', '"\\u0048S256"');
    const repeated = [text.replace('{', '{"alg":"none",'), text.replace('}', ',"alg":"HS256"}')];
    for (const other of [...texts, escaped, ...repeated, text.replace('{', '{"__proto__":{},')]) {
      expectRefused(forge(other, JSON.stringify(claims)));
    }
  });

  it('from the future, or good for too long, is refused', () => {
    const at = (iat: number, exp = iat + tokenLifetimeS) => signToken(key, { ...claims, iat, exp });
    expect(readToken(at(nowS + 60), expected).iat).toBe(nowS + 60);
    expectRefused(at(nowS + 61));
    expectRefused(at(nowS + 10 * 365 * 86_400));
    expectRefused(at(nowS, nowS + tokenLifetimeS + 1));
    expectRefused(at(nowS - 10, nowS + tokenLifetimeS));
    expectRefused(at(0, nowS + 60));
    expectRefused(at(-1, nowS));
    expectRefused(at(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER));
    expect(refusalOf(at(nowS - tokenLifetimeS)).message).toContain('expired');
  });

  it('with a changed payload is refused', () => {
    const [head, , signature] = signToken(key, claims).split('.');
    const changes = [
      { role: 'admin' },
      { sub: randomUUID() },
      { exp: claims.exp - 1 },
      { email: 'eve@example.com' },
    ];
    for (const change of changes) {
      expectRefused(`${head}.${base64url(JSON.stringify({ ...claims, ...change }))}.${signature}`);
    }
  });

  it.each(Object.keys(claims) as (keyof Claims)[])(
    'without %s, or with another type of it, is refused',
    (name) => {
      const { [name]: value, ...rest } = claims;
      expectRefused(withPayload(rest));
      const others = [
        null,
        true,
        '',
        [],
        [value],
        {},
        { value },
        typeof value === 'number' ? String(value) : 1,
      ];
      for (const other of others) expectRefused(withPayload({ ...claims, [name]: other }));
    },
  );

  it('with a sub or sid that is no UUID, or a time that is no whole number, is refused', () => {
    const { sub } = claims;
    const others = [
      sub.toUpperCase(),
      `${sub} `,
      `${sub}\n`,
      `{${sub}}`,
      sub.replaceAll('-', ''),
      sub.slice(1),
      '*',
    ];
    for (const other of others) {
      expectRefused(withPayload({ ...claims, sub: other }));
      expectRefused(withPayload({ ...claims, sid: other }));
    }
    const text = JSON.stringify(claims);
    for (const other of [
      `${claims.exp}.0`,
      `${claims.exp}.5`,
      '1e99',
      '-0',
      '1e400',
      `0${claims.exp}`,
      'NaN',
    ]) {
      expectRefused(withPayloadText(text.replace(`"exp":${claims.exp}`, `"exp":${other}`)));
      expectRefused(withPayloadText(text.replace(`"iat":${claims.iat}`, `"iat":${other}`)));
    }
  });

  it('with repeated or further claims, in another order or spelling, is refused', () => {
    const text = JSON.stringify(claims);
    for (const [name, value] of Object.entries(claims)) {
      const member = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
      expectRefused(withPayloadText(text.replace('{', `{${member},`)));
      expectRefused(withPayloadText(text.replace('}', `,${member}}`)));
      expectRefused(withPayloadText(text.replace('{', `{${JSON.stringify(name)}:"x",`)));
    }
    expectRefused(withPayload({ ...claims, nbf: nowS + 1000 }));
    expectRefused(withPayload(Object.fromEntries(Object.entries(claims).reverse())));
    expectRefused(withPayloadText(text.replace('{', '{"__proto__":{"role":"admin"},')));
    for (const other of [
      `${text}\n`,
      ` ${text}`,
      `\ufeff${text}`,
      text.replaceAll(',', ', '),
      `${text}${text}`,
    ]) {
      expectRefused(withPayloadText(other));
    }
    expectRefused(withPayloadText(text.replace('"role"', '"\\u0072ole"')));
    expectRefused(withPayloadText(JSON.stringify(claims, null, 1)));
    for (const other of ['', 'null', '1', '"x"', '[]', '{}', `[${text}]`, '{', 'undefined']) {
      expectRefused(withPayloadText(other));
    }
    expectRefused(withPayloadText(Buffer.from(text.replace('ada', 'ad\xff'), 'latin1')));
    expectRefused(withPayloadText(Buffer.from(text, 'utf16le')));
  });

  it('with tricks in base64url is refused', () => {
    const token = signToken(key, claims);
    const [head = '', body = '', signature = ''] = token.split('.');
    const spellings = (part: string) => [
      `${part}=`,
      `${part}==`,
      `${part}A`,
      ` ${part}`,
      `${part}\n`,
      `${part}\0`,
      `${part}\u200b`,
      part.replace(/.$/, ''),
      `${part.slice(0, 8)}\n${part.slice(8)}`,
      `${part.slice(0, 8)}%0A${part.slice(8)}`,
      // Characters that look like, or normalize to, the right letter: full width, Cyrillic.
      part.replace(/[a-zA-Z]/, (letter) => String.fromCodePoint(letter.charCodeAt(0) + 0xfee0)),
      `\u0435${part.slice(1)}`,
    ];
    for (const other of spellings(head)) expectRefused(`${other}.${body}.${signature}`);
    for (const other of spellings(body)) expectRefused(`${head}.${other}.${signature}`);
    for (const other of spellings(signature)) expectRefused(`${head}.${body}.${other}`);
    for (const other of spellings(body)) {
      expectRefused(`${head}.${other}.${signatureOf(`${head}.${other}`)}`);
    }
    const plain = Buffer.from(signature, 'base64url').toString('base64');
    expectRefused(`${head}.${body}.${plain}`);
    for (const other of [
      `${token}.`,
      `.${token}`,
      `${token}.x`,
      `${head}..${signature}`,
      '..',
      '.',
      '',
      'x',
    ]) {
      expectRefused(other);
    }
    for (const separator of ['\u3002', '\uff0e', ',', ' ', '\0.'])
      expectRefused(token.replaceAll('.', separator));
    for (const other of [` ${token}`, `${token} `, `${token}\n`, `Bearer ${token}`, key.secret])
      expectRefused(other);
  });

  it('with another last character that means the same bytes is refused, signed as it stands', () => {
    for (const email of ['a@b', 'ab@b', 'abc@b']) {
      const token = signToken(key, { ...claims, email });
      const [head = '', body = '', signature = ''] = token.split('.');
      for (const twin of twinsOf(body)) {
        expectRefused(`${head}.${twin}.${signatureOf(`${head}.${twin}`)}`);
      }
      expect(twinsOf(signature).length).toBe(3);
      for (const twin of twinsOf(signature)) expectRefused(`${head}.${body}.${twin}`);
    }
    const kids = ['k', 'kk', 'kkk'];
    for (const kid of kids) {
      const [head = '', body = ''] = signToken({ ...key, id: kid }, claims).split('.');
      for (const twin of twinsOf(head)) {
        const signed = `${twin}.${body}`;
        expectRefused(`${signed}.${signatureOf(signed)}`, { secretOf: () => key.secret });
      }
    }
  });

  it('that is huge or deeply nested is refused', () => {
    expectRefused('x'.repeat(50_000_000));
    expectRefused(`${signToken(key, claims)}${'A'.repeat(9000)}`);
    expectRefused(withPayload({ ...claims, role: 'r'.repeat(9000) }));
    for (const depth of [100, 2800]) {
      expectRefused(withPayloadText('['.repeat(depth) + ']'.repeat(depth)));
      expectRefused(withPayloadText(`${'{"a":'.repeat(depth / 2)}1${'}'.repeat(depth / 2)}`));
      expectRefused(forge('['.repeat(depth) + ']'.repeat(depth), '{}'));
      expectRefused(forge(`{"kid":${'['.repeat(depth) + ']'.repeat(depth)}}`, '{}'));
    }
  });
});

it('any single changed, missing or added character is noticed', () => {
  const token = signToken(key, claims);
  const expectNoticed = (other: string) => {
    if (refusalOf(other).code !== 'invalid_token') expect.fail(other);
  };
  for (let at = 0; at < token.length; at++) {
    const [before, after] = [token.slice(0, at), token.slice(at + 1)];
    for (const character of `${alphabet}.=`) {
      if (character !== token[at]) expectNoticed(before + character + after);
    }
    expectNoticed(before + after);
    expectNoticed(`${before}A${token.slice(at)}`);
  }
});
