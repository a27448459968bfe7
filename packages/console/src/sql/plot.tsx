// uPlot in React. It draws on a canvas and places its parts through the CSSOM, which the content security policy allows.
import { useEffect, useRef, useState } from 'react';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { type ChartData, rangeFromZero } from './chart-data.ts';

export type Shape = 'line' | 'bar';
type Props = {
  data: ChartData;
  names: readonly string[];
  shape: Shape;
  label: string;
  /** The point below the pointer. */
  onPoint: (index: number | null) => void;
};

export function Plot({ data, names, shape, label, onPoint }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const point = useRef(onPoint);
  point.current = onPoint;
  const theme = useThemeChanges();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours follow the theme.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const size = () => ({ width: element.clientWidth, height: Math.max(160, element.clientHeight) });
    const colour = (className: string) => colourOf(element, className);
    const axis = { stroke: colour('plot-text'), grid: { stroke: colour('plot-line'), width: 1 } };
    const plot = new UPlot(
      {
        ...size(),
        legend: { show: false },
        scales: {
          x: { time: data.kind === 'time', ...(data.kind === 'order' && { range: edgesOf(data.x) }) },
          // The length of a bar is its value.
          ...(shape === 'bar' && { y: { range: (_plot, least, most) => rangeFromZero(least, most) } }),
        },
        axes: [
          { ...axis, ticks: axis.grid, ...(data.kind === 'order' && namedTicks(data.labels)) },
          { ...axis, ticks: axis.grid, size: widthOfTexts },
        ],
        series: [
          {},
          ...names.map((_, index) => seriesOf(colour(`series-${index + 1}`), shape, names.length)),
        ],
        hooks: { setCursor: [({ cursor }) => point.current(cursor.idx ?? null)] },
      },
      [data.x, ...data.series],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize(size()));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [data, names, shape, theme]);
  return <div ref={box} className="plot" role="img" aria-label={label} />;
}

function seriesOf(stroke: string, shape: Shape, count: number): UPlot.Series {
  const bars = UPlot.paths.bars?.({ size: [0.7, 60] });
  return {
    stroke,
    width: shape === 'bar' ? 0 : 1.5,
    // Bars of several columns are in one place: all of them can be seen.
    ...(shape === 'bar' && bars ? { paths: bars, fill: stroke, alpha: count > 1 ? 0.55 : 1 } : {}),
    points: { show: false },
  };
}

const tickPx = 10;
const gapPx = 5;
const edgePx = 6;

/** As wide as its longest text. Until uPlot has chosen the ticks, it asks with none. */
function widthOfTexts(plot: UPlot, texts: string[] | null): number {
  const { ctx } = plot;
  // The font of the axis, which uPlot sets only when it draws.
  ctx.save();
  const font = plot.axes[1]?.font as unknown as [string] | undefined;
  if (font) ctx.font = font[0];
  const widest = Math.max(0, ...(texts ?? []).map((text) => ctx.measureText(text).width));
  ctx.restore();
  return Math.ceil(widest / devicePixelRatio) + tickPx + gapPx + edgePx;
}

/** Half a place at each side: bars at the edges are whole. */
function edgesOf(x: readonly number[]): [number, number] {
  return [-0.5, Math.max(0, x.length - 1) + 0.5];
}

const labelMax = 14;

function namedTicks(labels: readonly string[]): Partial<UPlot.Axis> {
  return {
    space: 80,
    incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000],
    values: (_plot, ticks) =>
      ticks.map((tick) => {
        const text = labels[tick] ?? '';
        return text.length > labelMax ? `${text.slice(0, labelMax - 1)}…` : text;
      }),
  };
}

/** A canvas knows no custom properties: the browser resolves them on an element. */
function colourOf(parent: HTMLElement, className: string): string {
  const probe = document.createElement('span');
  probe.className = className;
  parent.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Changes with each change of the theme, by the system or by the person. */
function useThemeChanges(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const changed = () => setChanges((count) => count + 1);
    const system = matchMedia('(prefers-color-scheme: dark)');
    const observer = new MutationObserver(changed);
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    system.addEventListener('change', changed);
    return () => {
      observer.disconnect();
      system.removeEventListener('change', changed);
    };
  }, []);
  return changes;
}
