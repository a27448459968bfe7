import { Badge } from '../ui/badge.tsx';
import { formatDuration, formatNumber } from '../ui/format.ts';
import { type PlanNode, totalMs } from './plan.ts';

/** An estimate that is off by more is marked: it makes the planner choose badly. */
const misestimateMin = 10;

export function PlanTree({ plan, hasTimes }: { plan: PlanNode; hasTimes: boolean }) {
  const total = hasTimes ? totalMs(plan) : plan.cost;
  return (
    <div className="plan">
      <p className="faint">
        {hasTimes
          ? `${formatDuration(total)} in all. The statement ran and was rolled back.`
          : `Estimated cost ${formatNumber(Math.round(total))}. The statement did not run.`}
      </p>
      <ul>
        <Node node={plan} total={total} hasTimes={hasTimes} />
      </ul>
    </div>
  );
}

function Node({ node, total, hasTimes }: { node: PlanNode; total: number; hasTimes: boolean }) {
  const own = hasTimes
    ? (node.selfMs ?? 0)
    : node.cost - node.children.reduce((sum, child) => sum + child.cost, 0);
  const share = total > 0 ? Math.max(0, own / total) : 0;
  return (
    <li>
      <div className="plan-node">
        <span className="plan-share" aria-hidden="true">
          <span
            className={share > 0.5 ? 'plan-hot' : undefined}
            style={{ width: `${Math.min(100, share * 100)}%` }}
          />
        </span>
        <span className="grow">
          <b>{node.title}</b> <span className="muted">{node.about}</span>
        </span>
        {node.misestimate !== null && node.misestimate >= misestimateMin ? (
          <Badge tone="warn">estimate off {formatNumber(Math.round(node.misestimate))}×</Badge>
        ) : null}
        {node.loops > 1 ? <Badge>{formatNumber(node.loops)} loops</Badge> : null}
        <span className="plan-number">{formatNumber(node.rows ?? node.estimatedRows)} rows</span>
        <span className="plan-number">
          {hasTimes ? formatDuration(node.selfMs ?? 0) : `${Math.round(share * 100)} %`}
        </span>
      </div>
      {node.children.length > 0 ? (
        <ul>
          {node.children.map((child) => (
            <Node key={child.id} node={child} total={total} hasTimes={hasTimes} />
          ))}
        </ul>
      ) : null}
    </li>
  );
}
