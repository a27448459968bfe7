import type { ReactNode } from 'react';
import type { Preview } from './import-file.ts';

const shownRows = 5;

/** The first rows of a file below its columns. */
export function PreviewTable({
  preview,
  typeOf,
}: {
  preview: Preview;
  typeOf: (column: string) => ReactNode;
}) {
  const columns = preview.columns.map((name, index) => ({ name, index, key: `${index} ${name}` }));
  const rows = preview.rows.slice(0, shownRows).map((values, index) => ({ values, line: index + 1 }));
  return (
    <section className="preview-table" aria-label="Preview">
      <table>
        <caption className="visually-hidden">The first rows of the file</caption>
        <thead>
          <tr>
            {columns.map(({ name, key }) => (
              <th key={key} scope="col">
                <span>{name}</span> {typeOf(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ values, line }) => (
            <tr key={line}>
              {columns.map(({ index, key }) => (
                <td key={key}>{values[index] ?? <span className="grid-mark">NULL</span>}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
