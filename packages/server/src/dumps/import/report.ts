// What an import has brought over, and what not. Bounded: a dump with a million broken statements has a short report.

export type Skipped = { entry: string; reason: string };
export type ImportReport = {
  tables: number;
  rows: number;
  users: number;
  large_objects: number;
  skipped: Skipped[];
  skipped_count: number;
};

const maxSkipped = 200;
const maxChars = 300;

export class Reporting {
  tables = 0;
  rows = 0;
  users = 0;
  largeObjects = 0;
  private readonly skipped: Skipped[] = [];
  private readonly groups = new Map<string, { reason: string; count: number }>();
  private count = 0;

  skip(entry: string, reason: string): void {
    this.count++;
    if (this.skipped.length < maxSkipped) this.skipped.push({ entry: clip(entry), reason: clip(reason) });
  }

  /** Many entries with one reason are one line. */
  skipInGroup(group: string, reason: string): void {
    this.count++;
    const found = this.groups.get(group);
    if (found) found.count++;
    else if (this.groups.size < maxSkipped) this.groups.set(group, { reason, count: 1 });
  }

  toReport(): ImportReport {
    const groups = [...this.groups].map(([group, { reason, count }]) => ({
      entry: clip(count > 1 ? `${group} (${count} entries)` : group),
      reason: clip(reason),
    }));
    return {
      tables: this.tables,
      rows: this.rows,
      users: this.users,
      large_objects: this.largeObjects,
      skipped: [...groups, ...this.skipped].slice(0, maxSkipped),
      skipped_count: this.count,
    };
  }
}

function clip(text: string): string {
  const line = text
    .slice(0, 4 * maxChars)
    .replace(/\s+/g, ' ')
    .trim();
  return line.length > maxChars ? `${line.slice(0, maxChars)}…` : line;
}
