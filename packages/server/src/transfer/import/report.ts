// What an import has brought over, and what not. Bounded: a dump with a million broken statements has a short report.
//
// An entry that is not taken over is lost, unless it is known that a project does not need it: no list of what counts as a
// loss could be complete.

import type { ServerError } from '../../postgres/wire/server-error.ts';
import { ownText } from '../read/own-text.ts';
import type { Heading } from '../read/script.ts';

export type Skipped = { entry: string; reason: string; lost: boolean };
export type ImportReport = {
  tables: number;
  rows: number;
  users: number;
  large_objects: number;
  /** Lost parts stand before needless ones. */
  skipped: Skipped[];
  skipped_count: number;
  lost_count: number;
};

/** `needless`: a project has it already, or has no use for it. */
export type Weight = 'lost' | 'needless';

const maxSkipped = 200;
const maxChars = 300;
const maxMissingUsers = 100_000;
const maxReasons = 100;
const otherReason = 'the user cannot be stored here';
const uuidForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class Reporting {
  tables = 0;
  rows = 0;
  users = 0;
  largeObjects = 0;
  private readonly skipped: Record<Weight, Skipped[]> = { lost: [], needless: [] };
  private readonly groups = new Map<
    string,
    { group: string; reason: string; weight: Weight; count: number }
  >();
  private readonly missingUsers = new Map<string, string>();
  /** Each is kept once. */
  private readonly missingReasons = new Map<string, string>();
  private readonly counts: Record<Weight, number> = { lost: 0, needless: 0 };

  /** `reason`: why the user was not stored. Foreign keys may refer to it. */
  noteMissingUser(id: string, reason: string): void {
    // A foreign key to users has no other form.
    if (!uuidForm.test(id) || this.missingUsers.size >= maxMissingUsers) return;
    const why = clip(reason);
    if (this.missingReasons.size < maxReasons && !this.missingReasons.has(why))
      this.missingReasons.set(why, why);
    this.missingUsers.set(ownText(id), this.missingReasons.get(why) ?? otherReason);
  }

  /** What a violated foreign key says, with the user that is missing. */
  explainReference({ message, detail = '' }: Pick<ServerError, 'message' | 'detail'>): string {
    const id = /\)=\(([0-9a-f-]{36})\)/.exec(detail)?.[1];
    const reason = id === undefined ? undefined : this.missingUsers.get(id);
    if (reason === undefined) return detail === '' ? message : `${message}: ${detail}`;
    return `It refers to the user ${id}, who was not imported: ${reason}.`;
  }

  skip(entry: string, reason: string, weight: Weight = 'lost'): void {
    this.counts[weight]++;
    const list = this.skipped[weight];
    if (list.length < maxSkipped)
      list.push({ entry: clip(entry), reason: clip(reason), lost: weight === 'lost' });
  }

  /** Many entries with one reason are one line. */
  skipInGroup(group: string, reason: string, weight: Weight = 'lost', more = 1): void {
    this.counts[weight] += more;
    const name = group.length > maxChars ? clip(group) : group;
    const key = `${weight} ${name}`;
    const found = this.groups.get(key);
    if (found) found.count += more;
    else if (this.groups.size < maxSkipped)
      this.groups.set(key, { group: ownText(name), reason: clip(reason), weight, count: more });
  }

  toReport(): ImportReport {
    const { lost, needless } = this.counts;
    const skipped = [...this.listed('lost'), ...this.listed('needless')].slice(0, maxSkipped);
    return {
      tables: this.tables,
      rows: this.rows,
      users: this.users,
      large_objects: this.largeObjects,
      skipped,
      skipped_count: lost + needless,
      lost_count: lost,
    };
  }

  private listed(weight: Weight): Skipped[] {
    const groups = [...this.groups.values()].filter((one) => one.weight === weight);
    return [
      ...groups.map(({ group, reason, count }) => ({
        entry: clip(count > 1 ? `${group} (${count} entries)` : group),
        reason: clip(reason),
        lost: weight === 'lost',
      })),
      ...this.skipped[weight],
    ];
  }
}

function clip(text: string): string {
  const line = text
    .slice(0, 4 * maxChars)
    .replace(/\s+/g, ' ')
    .trim();
  return ownText(line.length > maxChars ? `${line.slice(0, maxChars)}…` : line);
}

/** The name of an entry in a report: TABLE public.teas. */
export function labelOf({ kind, schema, name }: Heading): string {
  return schema === null ? `${kind} ${name}` : `${kind} ${schema}.${name}`;
}
