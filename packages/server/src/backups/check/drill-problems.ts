// The projects whose last restore drill failed, until one of them succeeds. In the control database: every process, the
// usage of a project and doctor report it.
import type { Control } from '../../control/control.ts';
import { findSetting } from '../../control/settings.ts';
import { sql } from '../../postgres/sql.ts';

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

/** In one statement: a drill that an operator asks for can end in another process at the same time. */
async function change(control: Control, projectId: string, now: DrillProblem[]): Promise<void> {
  const added = JSON.stringify(now);
  await control.query(sql`
    insert into settings (name, value) values ('drill_problems', ${added})
    on conflict (name) do update set value = (
      select (coalesce(jsonb_agg(one order by place), '[]') || ${added}::text::jsonb)::text
      from jsonb_array_elements(settings.value::jsonb) with ordinality as old (one, place)
      where one ->> 'projectId' <> ${projectId})`);
}
