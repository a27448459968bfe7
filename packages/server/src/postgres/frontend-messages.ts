// What is said to PostgreSQL, written into one buffer so that a whole exchange leaves in a single write.

const firstBytes = 1024;

/** A long text in UTF-8. */
export type Pieces = Readonly<{ pieces: readonly Buffer[]; size: number }>;
export type Parameter = string | Pieces | null;

export class FrontendMessages {
  private bytes = Buffer.allocUnsafeSlow(firstBytes);
  length = 0;
  /** What has to be sent before `bytes`: long texts are not copied. */
  private ahead: Buffer[] = [];

  /** What goes before that which `take` gives. Empty unless a text was long. */
  takeAhead(): readonly Buffer[] {
    if (this.ahead.length === 0) return none;
    const taken = this.ahead;
    this.ahead = [];
    return taken;
  }

  /** What was written so far; the next message starts afresh. A copy, for the memory is used again unless it is large. */
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

  parse(name: string, query: string | Pieces): this {
    if (typeof query !== 'string') {
      this.byte(80).int32(4 + Buffer.byteLength(name) + 1 + query.size + 1 + 2);
      return this.text(name).long(query).byte(0).int16(0);
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
      this.int32(size).room(size);
      this.bytes.write(parameter, this.length, 'utf8');
      this.length += size;
    }
    return this.int16(0).end(at);
  }

  /** The size comes first, and what was written before a long text is no longer here to be corrected. */
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
      else if (parameter) this.long(parameter);
    }
    return this.int16(0);
  }

  private long({ pieces }: Pieces): this {
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

  /** maxRows 0: all of them. */
  execute(maxRows: number): this {
    const at = this.begin(69);
    return this.text('').int32(maxRows).end(at);
  }

  closeStatement(name: string): this {
    const at = this.begin(67);
    return this.byte(83).text(name).end(at);
  }

  /** PostgreSQL is to answer so far; the exchange is not at its end. */
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
    this.room(1);
    this.bytes[this.length++] = value;
    return this;
  }

  private int16(value: number): this {
    this.room(2);
    this.length = this.bytes.writeUInt16BE(value, this.length);
    return this;
  }

  private int32(value: number): this {
    this.room(4);
    this.length = this.bytes.writeInt32BE(value, this.length);
    return this;
  }

  private text(value: string): this {
    const size = Buffer.byteLength(value);
    this.room(size + 1);
    this.bytes.write(value, this.length, 'utf8');
    this.length += size;
    this.bytes[this.length++] = 0;
    return this;
  }

  private raw(value: Buffer): this {
    this.room(value.length);
    value.copy(this.bytes, this.length);
    this.length += value.length;
    return this;
  }

  private room(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.length + size + 1024));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

const none: readonly Buffer[] = [];

function isLong(parameter: Parameter): boolean {
  return typeof parameter === 'object' && parameter !== null;
}
