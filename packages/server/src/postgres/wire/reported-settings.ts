// The settings that PostgreSQL reports to a session by itself: as they were at the start, and which of them have changed since.
import { StandbyError } from './session-errors.ts';

export class ReportedSettings {
  /** PostgreSQL's major version, such as 18. */
  serverMajor = 0;
  isStandby = false;
  private isStarted = false;
  /** As it was at the start, or as the service has set it since. */
  private readonly expected = new Map<string, string>();
  private readonly altered = new Set<string>();

  /** A setting that differs from this point on was changed by a statement. */
  started(): void {
    this.isStarted = true;
  }

  /** The service itself changes it: PostgreSQL will report this value. */
  expect(name: string, value: string): void {
    this.expected.set(name, value);
  }

  get isAltered(): boolean {
    return this.altered.size > 0;
  }

  /** PostgreSQL would read a text differently from our parser. */
  get readsOtherwise(): boolean {
    return this.altered.has('standard_conforming_strings') || this.altered.has('client_encoding');
  }

  /** `text`: the name and the value, each followed by NUL. */
  note(text: string): void {
    const [name, value = ''] = text.split('\0');
    if (name === 'server_version') this.serverMajor = Number.parseInt(value, 10);
    if (name === 'in_hot_standby') this.noteStandby(value === 'on');
    if (name === undefined || ignored.has(name)) return;
    if (!this.isStarted) this.expected.set(name, value);
    else if (this.expected.get(name) === value) this.altered.delete(name);
    else this.altered.add(name);
  }

  /** A primary does not become a standby without a restart. If a session says so, something else has taken its place. */
  private noteStandby(isStandby: boolean): void {
    if (this.isStarted && isStandby && !this.isStandby) throw new StandbyError();
    this.isStandby = isStandby;
  }
}

/** PostgreSQL changes it by itself. */
const ignored = new Set(['in_hot_standby']);
