// Loaded into the service's own process by tests: how long its event loop is kept busy at a stretch. On Linux that is
// the processor time of the main thread, so that a machine with much else to do does not look like a stall.
import { readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const tickMs = 2;

function busyMs() {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[0]) / 1e6;
  } catch {
    return performance.now();
  }
}

if (isMainThread) {
  let last = busyMs();
  let longest = 0;
  setInterval(() => {
    const now = busyMs();
    longest = Math.max(longest, now - last);
    last = now;
  }, tickMs).unref();
  let count = 0;
  process.on('SIGUSR2', () => {
    const rssMb = Math.round(process.memoryUsage.rss() / 1024 / 1024);
    process.stdout.write(
      `\nloop-lag ${JSON.stringify({ count: ++count, longestMs: Math.round(longest), rssMb })}\n`,
    );
    longest = 0;
  });
}
