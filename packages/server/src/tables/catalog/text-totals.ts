// Bounds what all values of one text of a listing have together: a project can have any number of objects with texts of any
// length, and JSON of megabytes would hold up other requests.

const maxTextBytes = 512 * 1024;

/** A column of the result: the bytes of the text `name` up to this row. `order` must be unique. */
export function totalOf(name: string, order: string): string {
  return `pg_catalog.sum(pg_catalog.octet_length("${name}")) over (order by ${order}) as "${name} bytes"`;
}

/** The text, or null from the row on that exceeds the limit. Outside of the subselect that has `totalOf`. */
export function withinTotal(name: string): string {
  return `case when "${name} bytes" operator(pg_catalog.<=) ${maxTextBytes} then "${name}" end`;
}
