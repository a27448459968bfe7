// How the API names a table: with its schema, unless that is public.
export const tableName = ({ schema, name }: { schema: string; name: string }) =>
  schema === 'public' ? name : `${schema}.${name}`;
