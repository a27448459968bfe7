// Judges a soak test: whether resource usage grew, and whether every failed request has an explanation.
import { slopeOf } from './soak-ledger.mjs';

/** In a shorter run a leak cannot be told from warm-up. */
const judgedFromMinutes = 5;

/** The growth allowed in the second half: a fraction of the mean, or an absolute amount if that is larger. */
const allowed = {
  'service, MB': [0.15, 60],
  'PostgreSQL, MB': [0.25, 200],
  'PostgreSQL processes': [0.25, 20],
  'connections to projects': [0.25, 20],
  'open files of the service': [0.25, 30],
  'open files of PostgreSQL': [0.25, 10],
};

/** `samples`: of the second half. Returns a table, and adds to `problems`. */
export function judgeGrowth(samples, minutes, problems) {
  return Object.entries(allowed).map(([what, [part, least]]) => {
    const points = samples.map((taken) => [taken.minute, taken[what]]).filter(([, value]) => value >= 0);
    const mean = points.reduce((sum, [, value]) => sum + value, 0) / points.length;
    const slope = slopeOf(points);
    const risen = slope * (minutes / 2);
    const limit = Math.max(mean * part, least);
    if (minutes >= judgedFromMinutes && risen > limit)
      problems.push(`${what}: grew by ${risen.toFixed(1)} in the second half; allowed: ${limit.toFixed(1)}`);
    const verdict =
      minutes < judgedFromMinutes ? 'run too short to judge' : risen > limit ? 'POSSIBLE LEAK' : 'flat';
    const first = points[0]?.[1] ?? Number.NaN;
    const last = points.at(-1)?.[1] ?? Number.NaN;
    return [what, mean.toFixed(1), first.toFixed(1), last.toFixed(1), slope.toFixed(2), verdict];
  });
}

/** Why a request failed. A failure that is not listed here is unexplained, and therefore a problem. */
const reasons = {
  disconnected: 'the client disconnected on purpose',
  'not reachable': 'the service was stopped or killed on purpose and was not up again yet',
  'connection lost': 'the service was stopped or killed on purpose during the request',
  unavailable: 'PostgreSQL was killed or is starting; nothing was changed',
  outcome_unknown: 'the connection broke during a change; the ledger accepts either outcome',
  overloaded:
    'too many requests were waiting: for the connections of an attacked project, or for hashing at sign-up and sign-in',
  rate_limited: 'more sign-ups or sign-ins than allowed per address',
};
const ownReasons = {
  'hostile sql_error': 'expected: out of memory, permission denied, or a limit of PostgreSQL',
  'hostile query_timeout': 'cancelled after 3 seconds',
  'hostile statement_not_allowed': 'never sent to PostgreSQL',
  'hostile conflict': 'a deadlock or lock of its own',
  'batch sql_error': 'the deliberate division by zero; the batch was rolled back',
  'refused insert sql_error': 'the deliberate division by zero',
  'hostile request_timeout': 'the request took too long to arrive',
};
/** Outcomes that may occur only around an injected fault. */
const onlyDisturbed = new Set(['not reachable', 'connection lost', 'unavailable', 'outcome_unknown']);

/** `answers`: as counted by soak-requests.mjs. Returns a table of the failures, and adds to `problems`. */
export function explainFailures(answers, problems) {
  const rows = [];
  const totals = new Map();
  for (const { kind, calm, disturbed } of answers.values())
    totals.set(kind, (totals.get(kind) ?? 0) + calm + disturbed);
  for (const [name, { kind, code, status, calm, disturbed }] of [...answers].sort()) {
    if (code === 'ok') continue;
    const isAside = kind === 'set-up' || kind === 'after a fault';
    const reason = ownReasons[name] ?? reasons[code];
    if (!reason && !isAside) problems.push(`unexplained: ${name} (${status}), ${calm + disturbed} times`);
    if (onlyDisturbed.has(code) && calm > 0 && !isAside)
      problems.push(`${name} occurred ${calm} times without an injected fault`);
    const rate = ((100 * (calm + disturbed)) / totals.get(kind)).toFixed(2);
    rows.push([kind, code, String(calm), String(disturbed), `${rate} %`, reason ?? '']);
  }
  return rows;
}
