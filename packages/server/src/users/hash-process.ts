// The process in which passwords are hashed, with the lowest priority there is: it gets the CPU that nobody else wants,
// and neither the event loop nor the thread pool of the service notices. It keeps nothing and writes nothing.
import { pbkdf2 } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';

/** `burn`: iterations to be made for the time they take. */
export type HashTask = Readonly<{
  id: number;
  password: string;
  salt: string;
  iterations: number;
  burn: number;
}>;
export type Answer = 'ready' | Readonly<{ id: number; hash: string | null }>;

/** All that SHA-256 has. Nothing of the service is loaded here. */
const hashBytes = 32;

yieldToAll();
process.on('message', work);
// Its work is of use to nobody any more. Not process.exit(), which waits for what the threads are doing.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Whoever stops the whole group means the service, which still finishes its requests and then ends this process.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
answer('ready');

/** Without it hashing works all the same: no failure here is an error. */
function yieldToAll(): void {
  const lowest = constants.priority.PRIORITY_LOW;
  attempt(() => setPriority(lowest));
  if (process.platform !== 'linux') return;
  // Linux has a priority for each thread, and to load this file the pool was started already.
  attempt(() => {
    for (const thread of readdirSync('/proc/self/task')) attempt(() => setPriority(Number(thread), lowest));
  });
  // Where sessions are scheduled as groups, a priority counts only within one; PostgreSQL is in another.
  attempt(() => writeFileSync('/proc/self/autogroup', String(lowest)));
}

function attempt(action: () => void): void {
  try {
    action();
  } catch {
    // As it was, then.
  }
}

function work({ id, password, salt, iterations, burn }: HashTask): void {
  const bytes = Buffer.from(salt, 'base64');
  pbkdf2(password, bytes, iterations, hashBytes, 'sha256', (error, hash) => {
    const done = () => answer({ id, hash: error ? null : hash.toString('base64') });
    if (burn > 0) pbkdf2(password, bytes, burn, hashBytes, 'sha256', done);
    else done();
  });
}

function answer(message: Answer): void {
  // A failure means that the service is gone, and so is this process in a moment.
  process.send?.(message, undefined, undefined, () => {});
}
