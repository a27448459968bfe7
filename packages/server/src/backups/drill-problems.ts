// The projects whose last restore drill failed, until one of them succeeds. In the control database: every process, the
// usage of a project and doctor report it. Only the process that does the background work writes it.
import type { Control } from '../control/control.ts';
import { findSetting, putSetting } from '../control/settings.ts';

export type DrillProblem = { projectId: string; slug: string; failedAt: string; problem: string };

const maxChars = 500;

/** The one that failed first comes first. */
export async function listDrillProblems(control: Control): Promise<DrillProblem[]> {
  return parseDrillProblems(await findSetting(control, 'drill_problems'));
}

/** `value`: of the setting. */
export function parseDrillProblems(value: string | null): DrillProblem[] {
  return value ? (JSON.parse(value) as DrillProblem[]) : [];
}

export async function findDrillProblem(control: Control, projectId: string): Promise<DrillProblem | null> {
  return (await listDrillProblems(control)).find((one) => one.projectId === projectId) ?? null;
}

/** In place of what was stored for the project. It becomes the last one. */
export async function putDrillProblem(control: Control, problem: DrillProblem): Promise<void> {
  await change(control, problem.projectId, [{ ...problem, problem: problem.problem.slice(0, maxChars) }]);
}

export async function forgetDrillProblem(control: Control, projectId: string): Promise<void> {
  await change(control, projectId, []);
}

async function change(control: Control, projectId: string, now: DrillProblem[]): Promise<void> {
  const before = await listDrillProblems(control);
  const others = before.filter((one) => one.projectId !== projectId);
  if (others.length === before.length && now.length === 0) return;
  await putSetting(control, 'drill_problems', JSON.stringify([...others, ...now]));
}
