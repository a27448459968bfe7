// A response as a stream with backpressure. The headers are sent with the first write.
import type { HeldAnswer } from '../../query/exchange/held-answer.ts';
import type { Reader } from '../../query/exchange/reader.ts';
import type { Head, HttpExchange } from '../http-exchange.ts';
import type { RequestDeadline } from '../request/request-deadline.ts';

type Options = Readonly<{
  exchange: HttpExchange;
  deadline: RequestDeadline;
  status: number;
  contentType: string;
  /** Called once, when the response turns out to be a stream. `isCommitted`: what the request has changed, if anything. */
  begin: (isCommitted: boolean) => Head;
}>;

export class ResponseReader implements Reader {
  hasBegun = false;
  /** Everything was written. */
  hasEnded = false;
  readonly deadline: RequestDeadline;
  readonly contentType: string;
  private readonly options: Options;

  constructor(options: Options) {
    this.options = options;
    this.deadline = options.deadline;
    this.contentType = options.contentType;
  }

  get isGone(): boolean {
    return this.deadline.isOver || this.options.exchange.isGone;
  }

  get leftMs(): number {
    return this.deadline.leftMs;
  }

  get startedAt(): number {
    return this.deadline.startedAt;
  }

  set startedAt(at: number) {
    this.deadline.startedAt = at;
  }

  get mayHaveChanged(): boolean {
    return this.deadline.mayHaveChanged;
  }

  set mayHaveChanged(value: boolean) {
    this.deadline.mayHaveChanged = value;
  }

  write(bytes: Buffer, onSent: (error?: Error | null) => void): boolean {
    // The caller already got the timeout error.
    if (this.deadline.isOver) return true;
    const { exchange, status, begin } = this.options;
    if (!this.hasBegun) {
      this.hasBegun = true;
      this.deadline.end();
      exchange.begin(status, [...begin(false), 'content-type', this.contentType]);
    }
    return exchange.write(bytes, onSent);
  }

  drained(carryOn: () => void): void {
    this.options.exchange.drained(carryOn);
  }

  end(): void {
    this.hasEnded = true;
    this.options.exchange.end();
  }

  /** Sends all pieces at the pace of the client, without joining them. */
  send(held: HeldAnswer, status: number): void {
    if (this.isGone) return held.release();
    const { exchange, begin } = this.options;
    this.hasBegun = true;
    this.deadline.end();
    const size = ['content-type', this.contentType, 'content-length', String(held.size)];
    exchange.begin(status, [...begin(true), ...size]);
    exchange.onEnd(() => held.release());
    const sendMore = () => {
      let hasRoom = true;
      while (hasRoom) {
        const piece = held.shift();
        if (!piece) return this.end();
        hasRoom = exchange.write(piece);
      }
      exchange.drained(sendMore);
    };
    sendMore();
  }

  breakOff(): void {
    this.options.exchange.breakOff();
  }
}
