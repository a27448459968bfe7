// What the soak was promised: every write that was sent, and whether it was acknowledged, refused, or neither. At the end
// the rows are compared with it, one by one.

/** `kept`: it must be there. `refused`: it must not. `unknown`: either, but whole. */
export function createLedger() {
  const groups = [];
  let nextId = 1;
  return {
    /** Rows that are written together: all of them or none. */
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
    /** `found`: id → body. Sentences, one for each thing that is wrong. */
    check(project, found) {
      const problems = [];
      const left = new Set(found.keys());
      for (const { rows, outcome } of groups.filter((group) => group.project === project)) {
        const there = rows.filter(({ id }) => found.has(id));
        for (const { id, body } of there) {
          left.delete(id);
          if (found.get(id) !== body) problems.push(`${project}: row ${id} holds something else`);
        }
        const ids = rows.map(({ id }) => id).join(', ');
        if (outcome === 'kept' && there.length < rows.length)
          problems.push(`${project}: acknowledged and lost, of rows ${ids}: ${rows.length - there.length}`);
        if (outcome === 'refused' && there.length > 0)
          problems.push(`${project}: refused and there all the same, of rows ${ids}: ${there.length}`);
        if (outcome === 'unknown' && there.length > 0 && there.length < rows.length)
          problems.push(`${project}: one half of a transaction, of rows ${ids}: ${there.length}`);
      }
      for (const id of left) problems.push(`${project}: row ${id} was never sent`);
      return problems;
    },
  };
}

/** Least squares: by how much a list of [minute, value] rises in a minute. */
export function slopeOf(points) {
  const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const [middleX, middleY] = [0, 1].map((part) => mean(points.map((point) => point[part])));
  const above = points.reduce((sum, [x, y]) => sum + (x - middleX) * (y - middleY), 0);
  const below = points.reduce((sum, [x]) => sum + (x - middleX) ** 2, 0);
  return below === 0 ? 0 : above / below;
}
