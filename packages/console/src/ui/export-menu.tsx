import { type Format, formats } from '../api/download.ts';
import { Icon } from './icons.tsx';
import { Menu } from './menu.tsx';

/** All rows as a file, not only those that are shown. */
export function ExportMenu({ onExport }: { onExport: (format: Format) => void }) {
  const items = (Object.keys(formats) as Format[]).map((format) => ({
    label: `All rows as ${formats[format].label}`,
    onSelect: () => onExport(format),
  }));
  return (
    <Menu
      label="Export"
      align="end"
      items={items}
      trigger={(props) => (
        <button type="button" className="button button-ghost button-small" {...props}>
          <Icon name="download" />
          <span className="button-label">Export</span>
        </button>
      )}
    />
  );
}
