// How much memory something may take: together in this process, and of that for one project.

export class MemoryBudget {
  private readonly limits: Readonly<{ perProject: number; inAll: number }>;
  private readonly byProject = new Map<string, number>();
  private all = 0;

  constructor(limits: Readonly<{ perProject: number; inAll: number }>) {
    this.limits = limits;
  }

  get taken(): number {
    return this.all;
  }

  /** False, and nothing is taken, if there is not so much. A negative size gives back. */
  take(project: string, bytes: number): boolean {
    const ofProject = (this.byProject.get(project) ?? 0) + bytes;
    const { perProject, inAll } = this.limits;
    if (bytes > 0 && (ofProject > perProject || this.all + bytes > inAll)) return false;
    this.all += bytes;
    if (ofProject > 0) this.byProject.set(project, ofProject);
    else this.byProject.delete(project);
    return true;
  }
}
