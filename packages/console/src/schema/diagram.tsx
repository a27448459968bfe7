// The tables of a project with lines for their foreign keys.
import { useMemo } from 'react';
import { Link } from 'wouter';
import type { Table } from '../api/queries.ts';
import { plural } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { type Box, boxWidth, columnsMax, type Line, layoutTables } from './layout.ts';

export function Diagram({ slug, tables }: { slug: string; tables: readonly Table[] }) {
  const { boxes, lines, width, height } = useMemo(() => layoutTables(tables), [tables]);
  return (
    <section className="diagram panel" aria-label="Diagram">
      <div className="diagram-sheet" style={{ width, height }}>
        <svg width={width} height={height} aria-hidden="true">
          {lines.map((line) => (
            <path key={line.key} className="diagram-line" d={pathOf(line)} />
          ))}
        </svg>
        {boxes.map((box) => (
          <TableBox key={box.key} slug={slug} box={box} />
        ))}
      </div>
    </section>
  );
}

function TableBox({ slug, box }: { slug: string; box: Box }) {
  const { table } = box;
  const name = table.schema === 'public' ? table.name : box.key;
  const rest = table.columns.length - columnsMax;
  const foreign = new Set(table.references.flatMap(({ columns }) => columns));
  return (
    <div className="diagram-box" style={{ left: box.x, top: box.y, width: boxWidth, height: box.height }}>
      <Link
        href={`/projects/${slug}/tables/${encodeURIComponent(name)}`}
        className="diagram-head truncate"
        title={name}
      >
        {name}
      </Link>
      {table.columns.slice(0, rest === 1 ? columnsMax + 1 : columnsMax).map((column) => (
        <div key={column.name} className="diagram-column" title={`${column.name} ${column.type}`}>
          <span className="card-icon">
            {table.primary_key.includes(column.name) ? <Icon name="key" size={12} /> : null}
            {foreign.has(column.name) ? <Icon name="link" size={12} /> : null}
          </span>
          <span className="truncate grow">{column.name}</span>
          <span className="faint truncate">{column.type}</span>
        </div>
      ))}
      {rest > 1 ? <div className="diagram-column faint">{plural(rest, 'more column')}</div> : null}
    </div>
  );
}

/** A curve that leaves and enters a box horizontally. */
function pathOf({ from, to }: Line): string {
  const bend = Math.max(40, Math.abs(from.x - to.x) / 2);
  const start = from.x > to.x ? from.x - bend : from.x + bend;
  return `M${from.x} ${from.y}C${start} ${from.y} ${to.x + bend} ${to.y} ${to.x} ${to.y}`;
}
