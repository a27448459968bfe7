// Records every write that the soak test sends, and whether it was acknowledged, refused, or neither. At the end every row
// is compared with this record.

/** `kept`: all rows must exist. `refused`: none may exist. `unknown`: all or none. */
export function createLedger() {
  const groups = [];
  let nextId = 1;
  return {
    /** Rows that are written together, all or none. */
    begin(project, count) {
      const rows = Array.from({ length: count }, () => {
        const id = nextId++;
        return { id, body: `${id}:${Math.random().toString(36).slice(2)}` };
      });
      const group = { project, rows, outcome: 'unknown' };
      groups.push(group);
      return group;
    },
    counts() {
      const counts = { kept: 0, refused: 0, unknown: 0 };
      for (const { outcome, rows } of groups) counts[outcome] += rows.length;
      return counts;
    },
    /** `found`: id → body. Returns one sentence per problem. */
    check(project, found) {
      const problems = [];
      const left = new Set(found.keys());
      for (const { rows, outcome } of groups.filter((group) => group.project === project)) {
        const there = rows.filter(({ id }) => found.has(id));
        for (const { id, body } of there) {
          left.delete(id);
          if (found.get(id) !== body) problems.push(`${project}: row ${id} has the wrong content`);
        }
        const ids = rows.map(({ id }) => id).join(', ');
        if (outcome === 'kept' && there.length < rows.length)
          problems.push(`${project}: acknowledged but lost: ${rows.length - there.length} of rows ${ids}`);
        if (outcome === 'refused' && there.length > 0)
          problems.push(`${project}: refused but stored: ${there.length} of rows ${ids}`);
        if (outcome === 'unknown' && there.length > 0 && there.length < rows.length)
          problems.push(`${project}: transaction stored in part: ${there.length} of rows ${ids}`);
      }
      for (const id of left) problems.push(`${project}: row ${id} was never sent`);
      return problems;
    },
  };
}

/** Least squares: the rise per minute of a list of [minute, value]. */
export function slopeOf(points) {
  const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const [middleX, middleY] = [0, 1].map((part) => mean(points.map((point) => point[part])));
  const above = points.reduce((sum, [x, y]) => sum + (x - middleX) * (y - middleY), 0);
  const below = points.reduce((sum, [x]) => sum + (x - middleX) ** 2, 0);
  return below === 0 ? 0 : above / below;
}
