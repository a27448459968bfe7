// Chooses the server of a new project. A pure function, so that a simulation can run the same decision.
//
// Room is capacity less what projects store, not less the sum of their limits: most projects store a small part of their
// limit, so a sum of limits would leave most of a disk unused. A new project can fill its limit on its first day, so a
// server must have that much room left now.

/** What is known of a server. */
export type Candidate = Readonly<{
  id: number;
  name: string;
  /** It takes new projects. */
  isActive: boolean;
  isAnswering: boolean;
  labels: readonly string[];
  /** null: not known. */
  capacityMb: number | null;
  /** What its databases take on disk. */
  usedMb: number;
  /** From 0 to 1: the part of its sessions that is in use. */
  load: number;
}>;

/** What the caller of POST /projects asks for. */
export type Wish = Readonly<{
  limitMb: number;
  /** The server must have all of them. */
  labels?: readonly string[];
  server?: string;
  /** Servers that failed while this project was created. */
  without?: ReadonlySet<number>;
}>;

export type Refusal = 'unknown' | 'labels' | 'draining' | 'full' | 'unavailable';
export type Choice = Readonly<{ id: number } | { refused: Refusal }>;

/** The most lightly used server that has room. `refused`: the last condition that no server met. */
export function choosePlace(candidates: readonly Candidate[], wish: Wish): Choice {
  const named = candidates.filter(({ name }) => wish.server === undefined || name === wish.server);
  const labelled = named.filter(({ labels }) => (wish.labels ?? []).every((label) => labels.includes(label)));
  const active = labelled.filter(({ isActive }) => isActive);
  const roomy = active.filter(
    ({ capacityMb, usedMb }) => capacityMb === null || usedMb + wish.limitMb <= capacityMb,
  );
  const answering = roomy.filter(({ id, isAnswering }) => isAnswering && !wish.without?.has(id));
  const compare = byUse(candidates);
  const [first, ...others] = answering;
  if (first) return { id: others.reduce((best, one) => (compare(one, best) < 0 ? one : best), first).id };
  const stages: [readonly Candidate[], Refusal][] = [
    [named, 'unknown'],
    [labelled, 'labels'],
    [active, 'draining'],
    [roomy, 'full'],
  ];
  const missed = stages.find(([left]) => left.length === 0);
  return { refused: missed ? missed[1] : 'unavailable' };
}

/**
 * By the scarcer of disk and sessions. Where a capacity is not known, the largest known one is assumed; where none is, the
 * servers are compared by what they store.
 */
function byUse(all: readonly Candidate[]): (one: Candidate, other: Candidate) => number {
  const known = all.map(({ capacityMb }) => capacityMb).filter((capacity) => capacity !== null);
  const usual = known.length > 0 ? Math.max(...known) : Math.max(1, ...all.map(({ usedMb }) => usedMb));
  const diskUse = ({ usedMb, capacityMb }: Candidate) => usedMb / (capacityMb ?? usual);
  const use = (candidate: Candidate) => Math.max(diskUse(candidate), candidate.load);
  return (one, other) => use(one) - use(other) || diskUse(one) - diskUse(other) || one.id - other.id;
}
