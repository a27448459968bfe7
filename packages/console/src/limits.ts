// How much the console reads and shows at once. Those of the service are in packages/server/src/settings/limits.

/** Rows that the grid reads at once: a page of a table. */
export const gridPageRows = 200;
/** Users on a page of the list of users. */
export const userPageRows = 50;
/** Rows of a result that the SQL screen shows. More are for a file: see the export. */
export const resultRowsMax = 20_000;
/** How much of a file is read for the preview of an import, and how many of its rows are shown. */
export const importPreviewBytes = 256 * 1024;
export const importPreviewRows = 50;
