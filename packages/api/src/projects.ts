// Projects on the wire.
import Type, { type Static } from 'typebox';
import { pageQuery, success, title } from './envelope.ts';

export const slugPattern = '^[a-z0-9](?:[a-z0-9]|-(?=[a-z0-9])){1,46}[a-z0-9]$';

export const Project = Type.Object(
  {
    id: Type.String({ description: 'Opaque and stable.' }),
    slug: Type.String({ description: 'Identifies the project in every path.', examples: ['my-shop'] }),
    name: Type.String({ examples: ['My Shop'] }),
    limit_mb: Type.Integer({
      description: 'Size limit in megabytes (1 MB = 1,048,576 bytes).',
      examples: [512],
    }),
    size_mb: Type.Number({
      description: 'What the project stores now, without what an empty project takes.',
    }),
    status: Type.Enum(['ready', 'full', 'moving', 'deleted']),
    created_at: Type.String({ format: 'date-time' }),
    deleted_at: Type.Optional(Type.String({ format: 'date-time', description: 'Only when deleted.' })),
    dropped_after: Type.Optional(
      Type.String({ format: 'date-time', description: 'Until then a deleted project can be restored.' }),
    ),
  },
  { additionalProperties: false },
);
export type Project = Static<typeof Project>;

const limitMb = Type.Integer({ minimum: 1, description: 'At most what the installation allows.' });

export const CreateProject = Type.Object(
  {
    name: title,
    limit_mb: Type.Optional({ ...limitMb, default: 512 }),
    slug: Type.Optional(
      Type.String({
        pattern: slugPattern,
        description: '3 to 48 of a-z, 0-9 and single hyphens. Made from the name when left out.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type CreateProject = Static<typeof CreateProject>;

export const ChangeProject = Type.Object(
  { name: Type.Optional(title), limit_mb: Type.Optional(limitMb) },
  { additionalProperties: false, minProperties: 1 },
);
export type ChangeProject = Static<typeof ChangeProject>;

export const ListProjects = Type.Object(
  {
    ...pageQuery({ max: 1000 }),
    status: Type.Optional(
      Type.Enum(['live', 'deleted'], {
        default: 'live',
        description: 'deleted: those that can still be restored.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type ListProjects = Static<typeof ListProjects>;

export const ProjectResponse = success({ project: Project });
export const ProjectsResponse = success({
  projects: Type.Array(Project),
  page: Type.Integer(),
  limit: Type.Integer(),
  has_more: Type.Boolean(),
});
export const CreatedProjectResponse = success({
  project: Project,
  api_key: Type.String({ description: "The project's key. Shown only now.", examples: ['rh_proj_…'] }),
});
export const ConnectionResponse = success({
  connection: Type.Object(
    {
      url: Type.String({ description: 'For psql and every PostgreSQL driver. Holds the password.' }),
      host: Type.String(),
      port: Type.Integer(),
      database: Type.String(),
      user: Type.String(),
      password: Type.String(),
    },
    { additionalProperties: false },
  ),
});

export type ProjectResponse = Static<typeof ProjectResponse>;
export type ProjectsResponse = Static<typeof ProjectsResponse>;
export type CreatedProjectResponse = Static<typeof CreatedProjectResponse>;
export type ConnectionResponse = Static<typeof ConnectionResponse>;
