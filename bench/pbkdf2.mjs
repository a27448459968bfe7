// Measures how many hashes per second this machine computes while idle: the upper limit for sign-ins.
// node bench/pbkdf2.mjs <seconds>, with UV_THREADPOOL_SIZE set to the number of cores.
import { pbkdf2 } from 'node:crypto';
import { promisify } from 'node:util';
import { rateOf } from './load.mjs';

const hash = promisify(pbkdf2);
const end = performance.now() + Number(process.argv[2]) * 1000;
const doneAt = [];

async function work() {
  while (performance.now() < end) {
    await hash('correct horse', 'sixteen bytes ok', 600_000, 32, 'sha256');
    doneAt.push(performance.now());
  }
}

await Promise.all(Array.from({ length: Number(process.env.UV_THREADPOOL_SIZE) }, work));
console.log(JSON.stringify({ rate: rateOf(doneAt.filter((at) => at <= end)) }));
