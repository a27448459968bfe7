// Suggests the name that a mistyped one was meant to be, by edit distance.

/** Bounds the time spent on long names and long lists. */
const maxLength = 63;
const maxNames = 5_000;

/** null: no name is similar enough to be suggested. */
export function nearestName(wrong: string, names: Iterable<string>): string | null {
  if (wrong === '' || wrong.length > maxLength) return null;
  const lower = wrong.toLowerCase();
  let best: string | null = null;
  let bestDistance = 1 + Math.max(1, Math.min(3, Math.floor(wrong.length / 3)));
  let checked = 0;
  for (const name of names) {
    if (++checked > maxNames) break;
    const distance = distanceOf(lower, name.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** Edit distance: insertions, deletions, substitutions and swaps of neighbours. Stops counting at `limit`. */
function distanceOf(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit || b.length > maxLength) return limit;
  let before = new Uint8Array(b.length + 1);
  let last = Uint8Array.from(before, (_, index) => Math.min(index, limit));
  let row = new Uint8Array(b.length + 1);
  for (let i = 1; i <= a.length; i++) {
    // Cells farther from the diagonal reach the limit anyway; without this, thousands of long names took half a second.
    const [from, to] = [Math.max(1, i - limit + 1), Math.min(b.length, i + limit - 1)];
    row.fill(limit);
    row[0] = Math.min(i, limit);
    let least = at(row, 0);
    for (let j = from; j <= to; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let cost = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (isSame ? 0 : 1), limit);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, at(before, j - 2) + 1);
      }
      row[j] = cost;
      least = Math.min(least, cost);
    }
    if (least >= limit) return limit;
    [before, last, row] = [last, row, before];
  }
  return at(last, b.length);
}

function at(row: Uint8Array, index: number): number {
  return row[index] ?? 0;
}
