// The least that a proxy in Node.js can do: passes bytes to PASS_TO (host:port), without login, limits or TLS. Compared with
// it, the suite postgres-proxy shows what our own code costs, and what Node.js and the kernel cost.
import { connect, createServer } from 'node:net';

const [host, port] = process.env.PASS_TO.split(':');
const listener = createServer({ noDelay: true }, (client) => {
  const backend = connect({ host, port: Number(port), noDelay: true });
  for (const [one, other] of [
    [client, backend],
    [backend, client],
  ]) {
    one.on('error', () => {}).on('close', () => other.destroy());
    one.pipe(other);
  }
});
listener.listen(0, '127.0.0.1', () => console.log(`port ${listener.address().port}`));
