// Messages to PostgreSQL, collected in one buffer so that a whole exchange is sent with a single write.

const firstBytes = 1024;

/** A long text in UTF-8. */
export type Pieces = Readonly<{ pieces: readonly Buffer[]; size: number }>;
export type Parameter = string | Pieces | null;

export class FrontendMessages {
  private bytes = Buffer.allocUnsafeSlow(firstBytes);
  length = 0;
  /** Buffers to send before `bytes`. Long texts and rows of a COPY are not copied. */
  private ahead: Buffer[] = [];

  /** The buffers to send before the result of `take`. Empty unless there was a long text or a COPY. */
  takeAhead(): readonly Buffer[] {
    if (this.ahead.length === 0) return noBuffers;
    const taken = this.ahead;
    this.ahead = [];
    return taken;
  }

  /** Returns the messages written so far. A copy, because the memory is reused unless it is large. */
  take(): Buffer {
    const length = this.length;
    this.length = 0;
    if (this.bytes.length > firstBytes) {
      const taken = this.bytes.subarray(0, length);
      this.bytes = Buffer.allocUnsafeSlow(firstBytes);
      return taken;
    }
    const taken = Buffer.allocUnsafe(length);
    this.bytes.copy(taken, 0, 0, length);
    return taken;
  }

  startup(settings: Record<string, string>): this {
    const at = this.begin(null);
    this.int32(196608);
    for (const [name, value] of Object.entries(settings)) this.text(name).text(value);
    return this.byte(0).end(at);
  }

  cancel(pid: number, secret: Buffer): this {
    const at = this.begin(null);
    return this.int32(80877102).int32(pid).raw(secret).end(at);
  }

  saslInitial(mechanism: string, data: string): this {
    const at = this.begin(112);
    return this.text(mechanism).int32(Buffer.byteLength(data)).raw(Buffer.from(data)).end(at);
  }

  saslResponse(data: string): this {
    const at = this.begin(112);
    return this.raw(Buffer.from(data)).end(at);
  }

  /** The simple protocol, which is the only one that replication commands know. */
  query(text: string): this {
    const at = this.begin(81);
    return this.text(text).end(at);
  }

  copyData(content: Buffer): this {
    const at = this.begin(100);
    return this.raw(content).end(at);
  }

  /** Not copied: nobody may change it before it is sent. */
  copyDataAsIs(content: Buffer): this {
    return this.byte(100)
      .int32(4 + content.length)
      .pushPieces([content]);
  }

  parse(name: string, query: string | Pieces): this {
    if (typeof query !== 'string') {
      this.byte(80).int32(4 + Buffer.byteLength(name) + 1 + query.size + 1 + 2);
      return this.text(name).pushPieces(query.pieces).byte(0).int16(0);
    }
    const at = this.begin(80);
    return this.text(name).text(query).int16(0).end(at);
  }

  /** The unnamed portal; parameters and results as text. */
  bind(statement: string, parameters: readonly Parameter[]): this {
    if (parameters.some(isLong)) return this.bindLong(statement, parameters);
    const at = this.begin(66);
    this.text('').text(statement).int16(0).int16(parameters.length);
    for (const parameter of parameters as readonly (string | null)[]) {
      if (parameter === null) {
        this.int32(-1);
        continue;
      }
      const size = Buffer.byteLength(parameter);
      this.int32(size).ensureCapacity(size);
      this.bytes.write(parameter, this.length, 'utf8');
      this.length += size;
    }
    return this.int16(0).end(at);
  }

  /** Computes the size first: a long text flushes the buffer before it, so the header cannot be corrected later. */
  private bindLong(statement: string, parameters: readonly Parameter[]): this {
    const sizes = parameters.map((one) =>
      typeof one === 'string' ? Buffer.byteLength(one) : (one?.size ?? 0),
    );
    const values = sizes.reduce((sum, size) => sum + 4 + size, 0);
    this.byte(66).int32(4 + 1 + Buffer.byteLength(statement) + 1 + 2 + 2 + values + 2);
    this.text('').text(statement).int16(0).int16(parameters.length);
    for (const [index, parameter] of parameters.entries()) {
      this.int32(parameter === null ? -1 : (sizes[index] as number));
      if (typeof parameter === 'string') this.raw(Buffer.from(parameter));
      else if (parameter) this.pushPieces(parameter.pieces);
    }
    return this.int16(0);
  }

  private pushPieces(pieces: readonly Buffer[]): this {
    this.ahead.push(this.take(), ...pieces);
    return this;
  }

  describePortal(): this {
    const at = this.begin(68);
    return this.byte(80).text('').end(at);
  }

  describeStatement(name: string): this {
    const at = this.begin(68);
    return this.byte(83).text(name).end(at);
  }

  /** `maxRows` 0 means all rows. */
  execute(maxRows: number): this {
    const at = this.begin(69);
    return this.text('').int32(maxRows).end(at);
  }

  closeStatement(name: string): this {
    const at = this.begin(67);
    return this.byte(83).text(name).end(at);
  }

  /** PostgreSQL sends its answers so far. The exchange continues. */
  flush(): this {
    return this.end(this.begin(72));
  }

  copyDone(): this {
    return this.end(this.begin(99));
  }

  copyFail(reason: string): this {
    const at = this.begin(102);
    return this.text(reason).end(at);
  }

  sync(): this {
    return this.end(this.begin(83));
  }

  terminate(): this {
    return this.end(this.begin(88));
  }

  private begin(type: number | null): number {
    if (type !== null) this.byte(type);
    const at = this.length;
    this.int32(0);
    return at;
  }

  private end(at: number): this {
    this.bytes.writeInt32BE(this.length - at, at);
    return this;
  }

  private byte(value: number): this {
    this.ensureCapacity(1);
    this.bytes[this.length++] = value;
    return this;
  }

  private int16(value: number): this {
    this.ensureCapacity(2);
    this.length = this.bytes.writeUInt16BE(value, this.length);
    return this;
  }

  private int32(value: number): this {
    this.ensureCapacity(4);
    this.length = this.bytes.writeInt32BE(value, this.length);
    return this;
  }

  private text(value: string): this {
    const size = Buffer.byteLength(value);
    this.ensureCapacity(size + 1);
    this.bytes.write(value, this.length, 'utf8');
    this.length += size;
    this.bytes[this.length++] = 0;
    return this;
  }

  private raw(value: Buffer): this {
    this.ensureCapacity(value.length);
    value.copy(this.bytes, this.length);
    this.length += value.length;
    return this;
  }

  private ensureCapacity(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.length + size + 1024));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

const noBuffers: readonly Buffer[] = [];

function isLong(parameter: Parameter): boolean {
  return typeof parameter === 'object' && parameter !== null;
}
