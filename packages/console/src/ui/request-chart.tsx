// Requests by minute as bars; failed ones in the lower part of a bar.
import type { RequestCounts } from '@rowhouse/api';
import { formatNumber, formatTime, plural } from './format.ts';
import './chart.css';

const width = 960;
const height = 96;
const minutesMax = 60;

export function RequestChart({ minutes }: { minutes: readonly RequestCounts[] }) {
  const last = minutes.at(-1);
  if (!last) return <p className="faint">No requests in the last hour.</p>;
  const end = Date.parse(last.at);
  const most = Math.max(...minutes.map(({ requests }) => requests));
  const sum = (field: 'requests' | 'failures' | 'slow') =>
    minutes.reduce((total, minute) => total + minute[field], 0);
  const step = width / minutesMax;
  const bars = minutes.map((minute) => {
    const ago = Math.round((end - Date.parse(minute.at)) / 60_000);
    return { ...minute, x: width - (ago + 1) * step };
  });
  const barHeight = (count: number) => (count === 0 ? 0 : Math.max(2, (count / most) * height));
  const summary = `${plural(sum('requests'), 'request')}, ${formatNumber(sum('failures'))} failed, ${formatNumber(sum('slow'))} slow`;
  return (
    <figure className="chart">
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={summary}>
        {bars.map(({ at, x, requests, failures }) => (
          <g key={at}>
            <rect
              className="chart-bar"
              x={x}
              y={height - barHeight(requests)}
              width={step - 2}
              height={barHeight(requests)}
            />
            <rect
              className="chart-bar-bad"
              x={x}
              y={height - barHeight(failures)}
              width={step - 2}
              height={barHeight(failures)}
            />
          </g>
        ))}
      </svg>
      <figcaption className="row faint">
        <span>{summary}</span>
        <span className="grow" />
        <span>until {formatTime(last.at)}</span>
      </figcaption>
    </figure>
  );
}
