// Which of some names a mistyped one was meant to be.

/** Long names and long lists are not worth the time. */
const maxLength = 63;
const maxNames = 5_000;

/** null: none is near enough to be suggested. */
export function nearestName(wrong: string, names: Iterable<string>): string | null {
  if (wrong === '' || wrong.length > maxLength) return null;
  const lower = wrong.toLowerCase();
  let best: string | null = null;
  let bestDistance = 1 + Math.max(1, Math.min(3, Math.floor(wrong.length / 3)));
  let looked = 0;
  for (const name of names) {
    if (++looked > maxNames) break;
    const distance = distanceOf(lower, name.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** Letters inserted, left out, exchanged or swapped with their neighbour; `enough` or more is all the same. */
function distanceOf(a: string, b: string, enough: number): number {
  if (Math.abs(a.length - b.length) >= enough || b.length > maxLength) return enough;
  let before = new Uint8Array(b.length + 1);
  let last = Uint8Array.from(before, (_, index) => Math.min(index, enough));
  let row = new Uint8Array(b.length + 1);
  for (let i = 1; i <= a.length; i++) {
    // Farther from the diagonal it is enough in any case; without this thousands of long names took half a second.
    const [from, to] = [Math.max(1, i - enough + 1), Math.min(b.length, i + enough - 1)];
    row.fill(enough);
    row[0] = Math.min(i, enough);
    let least = at(row, 0);
    for (let j = from; j <= to; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let cost = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (isSame ? 0 : 1), enough);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, at(before, j - 2) + 1);
      }
      row[j] = cost;
      least = Math.min(least, cost);
    }
    if (least >= enough) return enough;
    [before, last, row] = [last, row, before];
  }
  return at(last, b.length);
}

function at(row: Uint8Array, index: number): number {
  return row[index] ?? 0;
}
