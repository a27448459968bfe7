import { expect, it } from 'vitest';
import { fillNew, lose, makeFleet, makeProjects, place, randomFrom, spread } from './fleet-model.mjs';

function placed(count, servers) {
  const projects = makeProjects(count, randomFrom(1));
  const fleet = makeFleet(servers, projects);
  place(fleet, projects);
  return { projects, fleet };
}

const stored = ({ storedMb }) => storedMb;

it('every project is on one server, and servers store about the same', () => {
  const { projects, fleet } = placed(20_000, 10);
  expect(fleet.servers.reduce((sum, server) => sum + server.projects, 0)).toBe(projects.length);
  const { most, least } = spread(fleet, stored);
  expect(most).toBeLessThan(1.2);
  expect(least).toBeGreaterThan(0.7);
});

it('the projects of a lost server are placed on the others', () => {
  const { projects, fleet } = placed(20_000, 10);
  const before = fleet.servers[3].projects;
  expect(lose(fleet, 3, projects)).toBe(before);
  expect(projects.filter(({ server }) => server === 3)).toEqual([]);
  expect(fleet.servers.reduce((sum, server) => sum + server.projects, 0)).toBe(projects.length);
});

it('a new server is filled to the average by moving as much as that', () => {
  const { projects, fleet } = placed(20_000, 10);
  const total = projects.reduce((sum, { mb }) => sum + mb, 0);
  const { movedMb } = fillNew(fleet, projects);
  expect(movedMb / (total / 11)).toBeGreaterThan(0.9);
  expect(movedMb / (total / 11)).toBeLessThan(1.1);
  expect(fleet.servers[10].storedMb).toBeCloseTo(movedMb, 0);
});
