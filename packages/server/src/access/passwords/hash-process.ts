// The process that hashes passwords, so that it blocks neither the event loop nor the thread pool of the service. It has the usual
// priority, above PostgreSQL's (servers/embedded/backend-priority.ts). It stores nothing and writes nothing.
import { pbkdf2 } from 'node:crypto';
import { promisify } from 'node:util';

/** `burn`: extra iterations whose result is discarded, so that every verification takes the same time. */
type Pbkdf2 = Readonly<{ salt: string; iterations: number; burn: number }>;
/** `bcrypt`: version, cost and salt. */
type Bcrypt = Readonly<{ bcrypt: string; burn: number }>;
export type HashWork = Readonly<{ password: string }> & (Pbkdf2 | Bcrypt);
export type HashTask = Readonly<{ id: number }> & HashWork;
export type Answer = 'ready' | Readonly<{ id: number; hash: string | null }>;

/** The full SHA-256 output. Defined again here because this process loads no module of the service. */
const hashBytes = 32;

const stretch = promisify(pbkdf2);

process.on('message', work);
// The parent is gone, so the results have no use. Not process.exit(): it waits for the running threads.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// A signal to the whole process group is meant for the service, which finishes its requests and then ends this process.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
answer('ready');

function work(task: HashTask): void {
  const hashing = 'bcrypt' in task ? hashByBcrypt(task) : hashByPbkdf2(task);
  hashing.then(
    (hash) => answer({ id: task.id, hash: hash.toString('base64') }),
    () => answer({ id: task.id, hash: null }),
  );
}

async function hashByPbkdf2({ password, salt, iterations, burn }: { password: string } & Pbkdf2) {
  const bytes = Buffer.from(salt, 'base64');
  const hash = await stretch(password, bytes, iterations, hashBytes, 'sha256');
  if (burn > 0) await stretch(password, bytes, burn, hashBytes, 'sha256');
  return hash;
}

/**
 * The hash itself, without what it was made from. It runs on this process' main thread, a tenth of a second at a time, and
 * `burn` beside it on another thread: a bcrypt that is quicker than PBKDF2 is answered as late.
 */
async function hashByBcrypt({ password, bcrypt, burn }: { password: string } & Bcrypt): Promise<Buffer> {
  // Few installations need it.
  const { hash } = await import('bcryptjs');
  const [made] = await Promise.all([
    hash(password, bcrypt),
    burn > 0 && stretch(password, Buffer.from(bcrypt), burn, hashBytes, 'sha256'),
  ]);
  return Buffer.from(made.slice(bcrypt.length), 'latin1');
}

function answer(message: Answer): void {
  // A failure means that the service is gone; 'disconnect' ends this process next.
  process.send?.(message, undefined, undefined, () => {});
}
