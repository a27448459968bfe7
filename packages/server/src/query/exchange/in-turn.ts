// Several statements in one transaction: each message of PostgreSQL goes to the statement whose turn it is.
import type { ServerError } from '../../postgres/wire/server-error.ts';
import type { Receiver } from '../../postgres/wire/session.ts';
import type { Exchange } from './exchange.ts';

export abstract class InTurn implements Receiver {
  /** Its place in the transaction; negative or beyond the last one for the service's own statements. */
  protected turn = 0;

  protected abstract get current(): Exchange | null;
  /** A statement has been answered. */
  protected abstract done(exchange: Exchange): void;
  /** Called after each part of an answer: all answers are held until the commit. */
  protected abstract haltIfLarge(): void;
  abstract copy(): void;
  abstract error(error: ServerError): void;
  abstract ready(status: 'idle' | 'transaction' | 'failed'): void;
  abstract lost(error: Error): void;

  parameterTypes(): void {}

  bound(): void {
    this.current?.bound();
  }

  rowDescription(bytes: Buffer, start: number): void {
    this.current?.rowDescription(bytes, start);
  }

  noData(): void {
    this.current?.noData();
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.current?.row(bytes, start, end);
    this.haltIfLarge();
  }

  rowPart(bytes: Buffer, start: number, end: number, left: number): void {
    this.current?.rowPart(bytes, start, end, left);
    this.haltIfLarge();
  }

  complete(tag: string | null): void {
    const { current } = this;
    const isIdentity = current?.isBeforeTarget === true;
    current?.complete(tag);
    if (isIdentity) return;
    if (current) this.done(current);
    this.turn++;
  }
}
