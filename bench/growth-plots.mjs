// Draws the plots of the growth benchmark.
import { writePlot } from './plot.mjs';

/** `points`: what was measured, by `projects`, `rows` and `state`. `names`: how each series is labelled. */
export function drawGrowth(points, names) {
  const line = (list, name, x, y) => ({ name, points: list.map((point) => [x(point), y(point)]) });
  const projectsAxis = { label: 'projects on the server', log: true };
  const kinds = (list, key) => [...new Set(list.map((point) => point[key]))];
  const byState = (name, y) => line(points.state, name, (point) => point.size, y);
  return [
    writePlot('growth-projects', {
      title: 'Q1 by number of projects',
      x: projectsAxis,
      y: 'requests per second',
      series: kinds(points.projects, 'name').map((name) =>
        line(
          points.projects.filter((point) => point.name === name),
          names[name],
          (point) => point.size,
          (point) => point.rate,
        ),
      ),
    }),
    writePlot('growth-start', {
      title: 'Start by number of projects',
      x: projectsAxis,
      y: 'seconds',
      series: [
        byState('after a stop', (point) => point.startMs / 1000),
        byState('after kill -9', (point) => point.crashMs / 1000),
      ],
    }),
    writePlot('growth-memory', {
      title: 'Memory by number of projects',
      x: projectsAxis,
      y: 'MB',
      series: [
        byState('service, at start', (point) => point.atStart.service),
        byState('service, after load', (point) => point.afterLoad.service),
        byState('PostgreSQL, at start', (point) => point.atStart.postgres),
        byState('PostgreSQL, after load', (point) => point.afterLoad.postgres),
      ],
    }),
    writePlot('growth-rows', {
      title: 'A page of 50 rows by number of rows',
      x: { label: 'rows in the table', log: true },
      y: 'requests per second',
      series: kinds(points.rows, 'kind').map((kind) =>
        line(
          points.rows.filter((point) => point.kind === kind),
          names[kind],
          (point) => point.rows,
          (point) => point.rate,
        ),
      ),
    }),
  ];
}
