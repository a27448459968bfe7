// How the API and the address of a page name a table.

/** With its schema, unless that is public. */
export const tableName = ({ schema, name }: { schema: string; name: string }) =>
  schema === 'public' ? name : `${schema}.${name}`;

/**
 * The table that the address of a page names: /console/projects/:slug/tables/:table. The router leaves characters such as
 * = and / encoded, and so cannot tell a=b from a%3Db.
 */
export function tableInAddress(pathname: string): string {
  const encoded = pathname.split('/')[5] ?? '';
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
