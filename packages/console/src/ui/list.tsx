// A table of things, for lists of up to some hundred rows. On a narrow screen every row becomes a card.
import type { ReactNode } from 'react';

export type ListColumn<Item> = {
  title: string;
  cell: (item: Item) => ReactNode;
  align?: 'end';
  /** Hides the title for eyes: of a column of buttons. */
  isTitleHidden?: boolean;
};

type Props<Item> = {
  label: string;
  columns: readonly ListColumn<Item>[];
  items: readonly Item[];
  keyOf: (item: Item) => string;
};

export function List<Item>({ label, columns, items, keyOf }: Props<Item>) {
  return (
    <table className="list" aria-label={label}>
      <thead>
        <tr>
          {columns.map(({ title, align, isTitleHidden }) => (
            <th key={title} className={align === 'end' ? 'end' : undefined} scope="col">
              <span className={isTitleHidden ? 'visually-hidden' : undefined}>{title}</span>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {items.map((item) => (
          <tr key={keyOf(item)}>
            {columns.map(({ title, cell, align, isTitleHidden }) => (
              <td
                key={title}
                className={align === 'end' ? 'end' : undefined}
                data-title={isTitleHidden ? '' : title}
              >
                {cell(item)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
