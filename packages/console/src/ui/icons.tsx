// Icons as paths of a 16 × 16 grid, drawn with a 1.4 stroke. All are decoration: the control beside them has the name.
const paths = {
  alert: 'M8 2.5 14.2 13.5H1.8ZM8 6.5v3M8 11.6v.1',
  api: 'M5.5 4 2 8l3.5 4M10.5 4 14 8l-3.5 4',
  branch: 'M4.5 3v10M4.5 9c4 0 7-1 7-4M4.5 3h0M11.5 5h0',
  check: 'm3 8.5 3.2 3.2L13 4.8',
  chevron: 'm5 6.5 3 3 3-3',
  close: 'm4 4 8 8M12 4l-8 8',
  columns: 'M2.5 3.5h11v9h-11ZM6.2 3.5v9M9.9 3.5v9',
  copy: 'M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3',
  database:
    'M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2ZM3 4v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2',
  dots: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  download: 'M8 2.5v8M4.8 7.5 8 10.7l3.2-3.2M3 13.5h10',
  duplicate: 'M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3M9.5 7.7v3.6M7.7 9.5h3.6',
  external: 'M6.5 3.5h-3v9h9v-3M9.5 3h3.5v3.5M13 3 7.5 8.5',
  filter: 'M2 3.5h12L9.5 9v4l-3-1.5V9Z',
  grid: 'M2.5 3.5h11v9h-11ZM2.5 6.5h11M6.2 6.5v6',
  help: 'M6 6.2A2 2 0 1 1 8 8.3v1M8 11.8v.1',
  key: 'M10.2 9.3a3.5 3.5 0 1 0-3.4-2.6L2.5 11v2.5H5V12h1.5v-1.5l1-1',
  link: 'M6.7 9.3 9.3 6.7M7 5l1.6-1.6a2.8 2.8 0 0 1 4 4L11 9M9 11l-1.6 1.6a2.8 2.8 0 0 1-4-4L5 7',
  logout: 'M6.5 2.5h-4v11h4M10 5l3 3-3 3M13 8H6',
  logs: 'M2.5 4h.1M2.5 8h.1M2.5 12h.1M5.5 4h8M5.5 8h8M5.5 12h5',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  monitor: 'M2.5 3h11v8h-11ZM6 13.5h4M8 11v2.5',
  moon: 'M13 9.5A5.5 5.5 0 1 1 6.5 3 4.5 4.5 0 0 0 13 9.5Z',
  panel: 'M2.5 3.5h11v9h-11ZM10 3.5v9',
  play: 'M5 3.2v9.6L12.5 8Z',
  plus: 'M8 3v10M3 8h10',
  refresh: 'M13 8a5 5 0 1 1-1.6-3.7M13 2.5V5h-2.5',
  save: 'M3 3h8l2 2v8H3ZM5.5 3v3.5h4V3M5.5 13V9.5h5V13',
  schema: 'M2.5 2.5h4v3h-4ZM9.5 10.5h4v3h-4ZM9.5 2.5h4v3h-4ZM4.5 5.5V12h5M4.5 4h5',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.3 10.3 13.5 13.5',
  server: 'M2.5 3h11v4h-11ZM2.5 9h11v4h-11ZM5 5h.1M5 11h.1',
  settings: 'M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M10 3v3M6 10v3',
  sort: 'M5 3v10M5 13l-2.2-2.2M5 13l2.2-2.2M11 13V3M11 3 8.8 5.2M11 3l2.2 2.2',
  sql: 'm3 5 3 3-3 3M8 11.5h5',
  stop: 'M4.5 4.5h7v7h-7Z',
  sun: 'M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1',
  trash: 'M3 4.5h10M6 4.5v-2h4v2M4.2 4.5l.6 9h6.4l.6-9M6.7 7v4M9.3 7v4',
  undo: 'M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8H7',
  upload: 'M8 10.7v-8M4.8 5.7 8 2.5l3.2 3.2M3 13.5h10',
  usage: 'M3 13.5V9M8 13.5v-11M13 13.5V6',
  users:
    'M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M10.5 3.2a2.5 2.5 0 0 1 0 4.6M12 9.8c1.6.5 2.5 1.8 2.5 3.7',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}

/** The sign of Rowhouse. */
export function Mark({ size = 20 }: { size?: number }) {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M5 25V14l5.5-5 5.5 5 5.5-5 5.5 5v11h-7v-5h-4v5z" />
    </svg>
  );
}
