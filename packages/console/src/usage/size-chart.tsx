// The size of a project over time as one area. A few dozen lines of SVG; a chart library would be larger than the screen.
import type { UsageResponse } from '@rowhouse/api';
import { formatMb, formatTime } from '../ui/format.ts';
import '../ui/chart.css';

type Props = { history: UsageResponse['history']; limitMb: number };

const width = 1000;
const height = 160;

export function SizeChart({ history, limitMb }: Props) {
  const first = history[0];
  const last = history.at(-1);
  if (!first || !last || history.length < 2) {
    return <p className="faint">The history begins when the size has changed for the first time.</p>;
  }
  const from = Date.parse(first.at);
  const span = Math.max(1, Date.parse(last.at) - from);
  const top = Math.max(...history.map(({ size_mb }) => size_mb), limitMb * 0.02) * 1.15;
  const x = (at: string) => ((Date.parse(at) - from) / span) * width;
  const y = (mb: number) => height - (mb / top) * height;
  // Each size applies until the next point, so the line moves in steps.
  const line = history
    .map(({ at, size_mb }, index) => (index === 0 ? `M${x(at)} ${y(size_mb)}` : `H${x(at)}V${y(size_mb)}`))
    .join('');
  return (
    <figure className="chart">
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label="Size over time"
      >
        <path className="chart-area" d={`${line}V${height}H0Z`} />
        <path className="chart-line" d={line} />
      </svg>
      <figcaption className="row faint">
        <span>{formatTime(first.at)}</span>
        <span className="grow" />
        <span>
          {formatTime(last.at)}, {formatMb(last.size_mb)}
        </span>
      </figcaption>
    </figure>
  );
}
