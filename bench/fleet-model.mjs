// Projects on many servers, placed by the product's own code: sizes are log-normal, traffic follows Zipf's law.
import { choosePlace } from '../packages/server/dist/servers/placement.js';

const emptyMb = 8;
const limitMb = 500;
/** The background work counts what servers store, several times while this many projects are created. */
const countedEvery = 500;

/** The same numbers in each run. */
export function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Half of them store less than 20 MB, and most of the traffic belongs to few. `rate`: the share of all traffic. */
export function makeProjects(count, random) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  let all = 0;
  for (let rank = 1; rank <= count; rank++) all += 1 / rank;
  const projects = Array.from({ length: count }, (_, index) => ({
    mb: emptyMb + Math.min(limitMb, 20 * Math.exp(1.8 * normal())),
    rate: 1 / (index + 1) / all,
    server: -1,
  }));
  for (let at = count - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [projects[at], projects[other]] = [projects[other], projects[at]];
  }
  return projects;
}

/** Servers that all projects together would fill to 70 % of the disk and half of the sessions. */
export function makeFleet(servers, projects) {
  const total = projects.reduce((sum, { mb }) => sum + mb, 0);
  const shape = { capacityMb: Math.ceil(total / servers / 0.7), capacityRate: 1 / servers / 0.5 };
  const fleet = { servers: [], shape };
  for (let n = 0; n < servers; n++) addServer(fleet);
  return fleet;
}

export function addServer({ servers, shape: { capacityMb, capacityRate } }) {
  const id = servers.length;
  const server = { id, name: `s${id}`, isActive: true, isAnswering: true, labels: [], capacityMb };
  servers.push({ ...server, usedMb: 0, load: 0, capacityRate, storedMb: 0, rate: 0, projects: 0 });
  return servers[id];
}

/** Places projects one after another. Each stores what it will by the next count. Returns the microseconds of one. */
export function place({ servers }, projects) {
  let spent = 0;
  projects.forEach((project, index) => {
    const started = performance.now();
    const choice = choosePlace(servers, { limitMb });
    spent += performance.now() - started;
    if ('refused' in choice) throw new Error(`No server for project ${index}: ${choice.refused}`);
    const server = servers[choice.id];
    project.server = server.id;
    server.usedMb += emptyMb;
    server.storedMb += project.mb;
    server.rate += project.rate;
    server.projects++;
    server.load = Math.min(1, server.rate / server.capacityRate);
    if (index % countedEvery === countedEvery - 1) for (const each of servers) each.usedMb = each.storedMb;
  });
  for (const each of servers) each.usedMb = each.storedMb;
  return (spent * 1000) / projects.length;
}

/** All projects of a server that is lost are placed on the others. */
export function lose(fleet, id, projects) {
  const server = fleet.servers[id];
  Object.assign(server, { isAnswering: false, usedMb: 0, storedMb: 0, rate: 0, projects: 0 });
  const moved = projects.filter((project) => project.server === id);
  place(fleet, moved);
  return moved.length;
}

/** How many projects must move to a new server, from the fullest ones, for it to store as much as the average. */
export function fillNew(fleet, projects) {
  const target = addServer(fleet);
  const mean = fleet.servers.reduce((sum, { storedMb }) => sum + storedMb, 0) / fleet.servers.length;
  let [moves, movedMb] = [0, 0];
  for (const project of projects) {
    if (target.storedMb >= mean) break;
    const source = fleet.servers[project.server];
    if (source.storedMb <= mean) continue;
    source.storedMb -= project.mb;
    source.rate -= project.rate;
    source.projects--;
    project.server = target.id;
    target.storedMb += project.mb;
    target.rate += project.rate;
    target.projects++;
    moves++;
    movedMb += project.mb;
  }
  for (const each of fleet.servers) each.usedMb = each.storedMb;
  return { moves, movedMb };
}

/** The largest and the smallest of the servers in use, as parts of their mean. */
export function spread({ servers }, read) {
  const values = servers.filter(({ isAnswering }) => isAnswering).map(read);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { most: Math.max(...values) / mean, least: Math.min(...values) / mean };
}
