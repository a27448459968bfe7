// Small projects with a table of items, and Q1 (one row by its key) in one of them at random with each request.
import { makeTables, statements } from './items.mjs';
import { queryRequest } from './load.mjs';

const rowsEach = 1_000;
const [makeItems] = makeTables;

export async function makeSmallProject(service, name) {
  const project = await service.makeProject(name, 500);
  await project.query(makeItems);
  await project.query(
    `insert into items select n, 'Item number ' || n, n / 100.0, true, '{"color":"red"}', now() from generate_series(1, ${rowsEach}) as n`,
  );
  return project;
}

/** For wrk(). */
export function askAtRandom(projects) {
  const targets = projects.map(({ url, key }) => `{'${new URL(url).pathname}/query','${key}'}`);
  return {
    before: `local projects = {${targets.join(',')}}`,
    request: `local n = math.random(1, ${projects.length})
  headers['x-api-key'] = projects[n][2]
  ${queryRequest(statements.Q1, { highestId: rowsEach, target: 'projects[n][1]' })}`,
  };
}
