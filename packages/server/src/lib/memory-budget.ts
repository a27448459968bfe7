// Counts the memory that one kind of data takes, and limits it for each holder (an account, or a project) and for the whole process.

export class MemoryBudget {
  private readonly limits: Readonly<{ perHolder: number; total: number }>;
  private readonly byHolder = new Map<string, number>();
  private total = 0;

  constructor(limits: Readonly<{ perHolder: number; total: number }>) {
    this.limits = limits;
  }

  get taken(): number {
    return this.total;
  }

  /** Returns false, and counts nothing, if a limit would be exceeded. A negative size releases memory. */
  take(holder: string, bytes: number): boolean {
    const ofHolder = (this.byHolder.get(holder) ?? 0) + bytes;
    const { perHolder, total } = this.limits;
    if (bytes > 0 && (ofHolder > perHolder || this.total + bytes > total)) return false;
    this.total += bytes;
    if (ofHolder > 0) this.byHolder.set(holder, ofHolder);
    else this.byHolder.delete(holder);
    return true;
  }
}
