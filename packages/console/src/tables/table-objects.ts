// Indexes, constraints and policies of a project, and those of a table that can be dropped by name.
import type { SchemaResponse } from '@rowhouse/api';
import { queryOptions } from '@tanstack/react-query';
import type { Table } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import type { ObjectKind } from './alter-sql.ts';

export type TableObject = { name: string; about: string };
type Parts = Pick<SchemaResponse, 'indexes' | 'constraints' | 'policies'>;
type Named = { schema: string; table: string; name: string };

export const partsQuery = (slug: string) =>
  queryOptions({
    queryKey: ['project', slug, 'schema', 'parts'],
    queryFn: ({ signal }) =>
      api.get<SchemaResponse>(
        path`projects/${slug}/schema`,
        { include: 'indexes,constraints,policies' },
        signal,
      ),
  });

export function objectsOf(
  parts: Parts,
  kind: ObjectKind,
  table: Pick<Table, 'schema' | 'name'>,
): TableObject[] {
  const isHere = (object: Named) => object.schema === table.schema && object.table === table.name;
  const { indexes = [], constraints = [], policies = [] } = parts;
  switch (kind) {
    case 'index':
      return indexes
        .filter((index) => isHere(index) && !isOfConstraint(index, parts))
        .map(({ name, definition }) => ({ name, about: definition ?? '' }));
    case 'constraint':
      return constraints
        .filter((constraint) => isHere(constraint) && isDroppable(constraint))
        .map(({ name, definition }) => ({ name, about: definition ?? '' }));
    case 'policy':
      return policies
        .filter(isHere)
        .map(({ name, command, roles }) => ({ name, about: `for ${command} to ${roles.join(', ')}` }));
  }
}

/** PostgreSQL drops such an index with its constraint only. The two share their name. */
export function isOfConstraint(index: Named, { constraints = [] }: Parts): boolean {
  return constraints.some(
    ({ schema, table, name, kind }) =>
      ['primary_key', 'unique', 'exclusion'].includes(kind) &&
      schema === index.schema &&
      table === index.table &&
      name === index.name,
  );
}

/** NOT NULL has a form of its own, and a constraint trigger is dropped as a trigger. */
export const isDroppable = ({ kind }: { kind: string }) => kind !== 'not_null' && kind !== 'trigger';
