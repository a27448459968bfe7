// A network for each node of a cluster, joined by a bridge, so that a test can cut one off. Needs Linux and root.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';

const ip = (...args) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });

/** The addresses and commands for a cluster in networks of its own, or a text that says why there can be none. */
export function openNetwork(names) {
  const tag = randomBytes(3).toString('hex');
  const prefix = `10.${200 + (randomBytes(1)[0] % 50)}.${randomBytes(1)[0]}`;
  const bridge = `rh${tag}`;
  const spaceOf = (name) => `rh-${tag}-${name}`;
  const portOf = (name) => `rh${tag}${name}`;
  const hostOf = (name) => `${prefix}.${10 + names.indexOf(name)}`;
  // etcd has an address of its own, so that a node can be cut off from etcd and still be reached from here.
  const etcdHost = `${prefix}.2`;
  const blackhole = (what, name) => {
    const others = [etcdHost, ...names.filter((each) => each !== name).map(hostOf)];
    for (const host of others) ip('-n', spaceOf(name), 'route', what, 'blackhole', `${host}/32`);
  };
  const stop = () => {
    for (const name of names) ignore(() => ip('netns', 'del', spaceOf(name)));
    ignore(() => ip('link', 'del', bridge));
  };
  try {
    ip('link', 'add', bridge, 'type', 'bridge');
    ip('addr', 'add', `${prefix}.1/24`, 'dev', bridge);
    ip('addr', 'add', `${etcdHost}/24`, 'dev', bridge);
    ip('link', 'set', bridge, 'up');
    for (const name of names) {
      const [space, port] = [spaceOf(name), portOf(name)];
      ip('netns', 'add', space);
      ip('link', 'add', port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', space);
      ip('link', 'set', port, 'master', bridge, 'up');
      ip('-n', space, 'addr', 'add', `${hostOf(name)}/24`, 'dev', 'eth0');
      ip('-n', space, 'link', 'set', 'eth0', 'up');
      ip('-n', space, 'link', 'set', 'lo', 'up');
    }
  } catch (error) {
    stop();
    return `network namespaces cannot be made here (${String(error.stderr || error.message).trim()})`;
  }
  return {
    etcdHost,
    hostOf,
    /** What goes in front of a command so that it runs in the node's network, as this account. */
    enter: (name, account) => [
      ...['ip', 'netns', 'exec', spaceOf(name)],
      ...(account
        ? ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups', '--']
        : []),
    ],
    /** `from`: everything, or only etcd and the other nodes. */
    cut: (name, from) =>
      from === 'everything' ? ip('link', 'set', portOf(name), 'down') : blackhole('add', name),
    heal: (name, from) =>
      from === 'everything' ? ip('link', 'set', portOf(name), 'up') : blackhole('del', name),
    stop,
  };
}

function ignore(run) {
  try {
    run();
  } catch {
    // It is not there.
  }
}
