// An authenticator in software, as WebAuthn describes it: makes passkeys and signs with them, honestly or not.
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

type Options = { challenge: string; rpId?: string; rp?: { id: string }; user?: { id: string } };
/** What an attacker would change. */
type Lies = {
  origin?: string;
  rpId?: string;
  challenge?: string;
  type?: string;
  counter?: number;
  isVerified?: boolean;
  userHandle?: string;
  crossOrigin?: boolean;
};

const sha256 = (data: Buffer | string) => createHash('sha256').update(data).digest();

export class Authenticator {
  readonly origin: string;
  readonly id: Buffer;
  readonly #key: KeyObject;
  readonly #publicKey: Buffer;
  counter = 0;
  userHandle = '';

  constructor(origin: string, id: Buffer = randomBytes(32)) {
    this.origin = origin;
    this.id = id;
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#key = privateKey;
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
    // COSE: { 1: 2 (EC2), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y }
    const bytes32 = (value: string) =>
      Buffer.concat([Buffer.from([0x58, 32]), Buffer.from(value, 'base64url')]);
    const head = Buffer.from([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21]);
    this.#publicKey = Buffer.concat([head, bytes32(x), Buffer.from([0x22]), bytes32(y)]);
  }

  register(options: Options, lies: Lies = {}) {
    this.userHandle = options.user?.id ?? '';
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.id.length);
    const credential = Buffer.concat([Buffer.alloc(16), length, this.id, this.#publicKey]);
    const data = this.#data(lies.rpId ?? options.rp?.id ?? '', 0x40, lies, credential);
    const size = Buffer.alloc(2);
    size.writeUInt16BE(data.length);
    // CBOR: { "fmt": "none", "attStmt": {}, "authData": … }
    const attestation = Buffer.concat([
      Buffer.from([0xa3, 0x63]),
      Buffer.from('fmt'),
      Buffer.from([0x64]),
      Buffer.from('none'),
      Buffer.from([0x67]),
      Buffer.from('attStmt'),
      Buffer.from([0xa0, 0x68]),
      Buffer.from('authData'),
      Buffer.from([0x59]),
      size,
      data,
    ]);
    return this.#answer({
      clientDataJSON: this.#client('webauthn.create', options, lies).toString('base64url'),
      attestationObject: attestation.toString('base64url'),
      transports: ['internal'],
    });
  }

  sign(options: Options, lies: Lies = {}) {
    const data = this.#data(lies.rpId ?? options.rpId ?? '', 0, lies);
    const client = this.#client('webauthn.get', options, lies);
    const signature = sign('sha256', Buffer.concat([data, sha256(client)]), this.#key);
    return this.#answer({
      clientDataJSON: client.toString('base64url'),
      authenticatorData: data.toString('base64url'),
      signature: signature.toString('base64url'),
      userHandle: lies.userHandle ?? this.userHandle,
    });
  }

  #data(rpId: string, more: number, lies: Lies, credential = Buffer.alloc(0)): Buffer {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(lies.counter ?? ++this.counter);
    const flags = 1 | (lies.isVerified === false ? 0 : 4) | more;
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), counter, credential]);
  }

  #client(type: string, { challenge }: Options, lies: Lies): Buffer {
    const said = {
      type: lies.type ?? type,
      challenge: lies.challenge ?? challenge,
      origin: lies.origin ?? this.origin,
      crossOrigin: lies.crossOrigin ?? false,
    };
    return Buffer.from(JSON.stringify(said));
  }

  #answer<T extends object>(response: T) {
    const id = this.id.toString('base64url');
    return {
      id,
      rawId: id,
      type: 'public-key' as const,
      clientExtensionResults: {},
      response,
      authenticatorAttachment: 'platform',
    };
  }
}
