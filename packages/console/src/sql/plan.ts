// PostgreSQL's plan as a tree, with what makes a node worth a look: its share of the time, and how far the estimate was off.
import type { QueryResponse } from '@rowhouse/api';

export type PlanNode = {
  id: string;
  title: string;
  about: string;
  rows: number | null;
  estimatedRows: number;
  loops: number;
  /** Without its children, of all loops. */
  selfMs: number | null;
  cost: number;
  /** Actual by estimated rows, at least 1. null: not executed. */
  misestimate: number | null;
  children: PlanNode[];
};

type Raw = Record<string, unknown> & { Plans?: Raw[] };

type Answer = Pick<QueryResponse, 'rows' | 'columns'>;

export function readPlan(answer: Answer): PlanNode {
  return readNode(rawPlans(answer)[0].Plan, '0');
}

/** How many rows a statement that was not executed is expected to change. null: the plan changes none. */
export function estimateChanges(answer: Answer): number | null {
  const counts = rawPlans(answer).flatMap(({ Plan }) => changesOf(Plan));
  return counts.length > 0 ? counts.reduce((sum, count) => sum + count, 0) : null;
}

/** By each ModifyTable: the rows that its own input gives it. Without RETURNING, the node itself has none. */
function changesOf(raw: Raw): number[] {
  const below = raw.Plans ?? [];
  const inner = below.flatMap(changesOf);
  if (raw['Node Type'] !== 'ModifyTable') return inner;
  const input = below.filter((child) => child['Parent Relationship'] === 'Outer');
  return [...inner, input.reduce((sum, child) => sum + (number(child['Plan Rows']) ?? 0), 0)];
}

function rawPlans({ rows, columns }: Answer): [{ Plan: Raw }] {
  const value = rows[0]?.[columns[0] ?? ''];
  return (typeof value === 'string' ? JSON.parse(value) : value) as [{ Plan: Raw }];
}

export function totalMs(node: PlanNode): number {
  return (node.selfMs ?? 0) + node.children.reduce((sum, child) => sum + totalMs(child), 0);
}

function readNode(raw: Raw, id: string): PlanNode {
  const children = (raw.Plans ?? []).map((child, index) => readNode(child, `${id}.${index}`));
  const loops = number(raw['Actual Loops']) ?? 1;
  const ms = number(raw['Actual Total Time']);
  const perLoop = number(raw['Actual Rows']);
  const estimatedRows = number(raw['Plan Rows']) ?? 0;
  const selfMs =
    ms === null ? null : Math.max(0, ms * loops - children.reduce((sum, child) => sum + totalMs(child), 0));
  return {
    id,
    title: String(raw['Node Type'] ?? ''),
    about: aboutOf(raw),
    rows: perLoop === null ? null : Math.round(perLoop * loops),
    estimatedRows,
    loops,
    selfMs,
    cost: number(raw['Total Cost']) ?? 0,
    misestimate: perLoop === null ? null : ratio(perLoop, estimatedRows),
    children,
  };
}

function aboutOf(raw: Raw): string {
  const relation = raw['Relation Name'] ?? raw['CTE Name'] ?? raw['Function Name'];
  const parts = [
    relation ? `on ${String(relation)}` : '',
    raw['Index Name'] ? `using ${String(raw['Index Name'])}` : '',
    ...['Index Cond', 'Hash Cond', 'Merge Cond', 'Recheck Cond', 'Filter', 'Sort Key'].map((name) =>
      raw[name] ? `${name.toLowerCase()} ${String(raw[name])}` : '',
    ),
  ];
  return parts.filter(Boolean).join(' · ');
}

function ratio(actual: number, estimated: number): number {
  const [small, large] = [Math.max(1, Math.min(actual, estimated)), Math.max(1, Math.max(actual, estimated))];
  return large / small;
}

const number = (value: unknown): number | null => {
  const read = typeof value === 'string' ? Number(value) : value;
  return typeof read === 'number' && Number.isFinite(read) ? read : null;
};
