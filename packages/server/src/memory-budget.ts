// Counts the memory that one kind of data takes, and limits it per project and for the whole process.

export class MemoryBudget {
  private readonly limits: Readonly<{ perProject: number; total: number }>;
  private readonly byProject = new Map<string, number>();
  private total = 0;

  constructor(limits: Readonly<{ perProject: number; total: number }>) {
    this.limits = limits;
  }

  get taken(): number {
    return this.total;
  }

  /** Returns false, and counts nothing, if a limit would be exceeded. A negative size releases memory. */
  take(project: string, bytes: number): boolean {
    const ofProject = (this.byProject.get(project) ?? 0) + bytes;
    const { perProject, total } = this.limits;
    if (bytes > 0 && (ofProject > perProject || this.total + bytes > total)) return false;
    this.total += bytes;
    if (ofProject > 0) this.byProject.set(project, ofProject);
    else this.byProject.delete(project);
    return true;
  }
}
