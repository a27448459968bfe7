// What sessionStorage holds beside the texts of the SQL editor. It is emptied when the person signs out, or another one signs in.
export const tokenKey = 'rowhouse.console-token';
/** Whose texts they are. */
export const ownerKey = 'rowhouse.owner';
/** The end user as whom rows are read and SQL runs. */
export const actingKey = 'rowhouse.acting';
