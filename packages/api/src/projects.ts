// Wire types of projects.
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
      description: 'The current size of the stored data, without the size of an empty project.',
    }),
    status: Type.Enum(['ready', 'full', 'creating', 'moving', 'deleted'], {
      description: 'creating: a job fills the project. It cannot be used yet.',
    }),
    parent: Type.Optional(
      Type.String({ description: 'The slug of the project of which this one is a branch.' }),
    ),
    expires_at: Type.Optional(
      Type.String({ format: 'date-time', description: 'The project is deleted after this time.' }),
    ),
    created_at: Type.String({ format: 'date-time' }),
    deleted_at: Type.Optional(
      Type.String({ format: 'date-time', description: 'Only for a deleted project.' }),
    ),
    dropped_after: Type.Optional(
      Type.String({ format: 'date-time', description: 'A deleted project can be restored until then.' }),
    ),
  },
  { additionalProperties: false },
);
export type Project = Static<typeof Project>;

const limitMb = Type.Integer({ minimum: 1, description: 'The limit of the installation is the maximum.' });

export const CreateProject = Type.Object(
  {
    name: title,
    limit_mb: Type.Optional({ ...limitMb, default: 512 }),
    slug: Type.Optional(
      Type.String({
        pattern: slugPattern,
        description:
          '3 to 48 characters: a-z, 0-9 and single hyphens. If omitted, it is derived from the name.',
      }),
    ),
    server: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 63,
        description: 'The name of the server that it must be on. If omitted, Rowhouse chooses one.',
      }),
    ),
    labels: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 63 }), {
        maxItems: 20,
        description: 'The server must have all of these labels.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type CreateProject = Static<typeof CreateProject>;

export const ChangeProject = Type.Object(
  {
    name: Type.Optional(title),
    limit_mb: Type.Optional(limitMb),
    expires_at: Type.Optional(
      Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
        description: 'The project is deleted after this time. null: never.',
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type ChangeProject = Static<typeof ChangeProject>;

export const ListProjects = Type.Object(
  {
    ...pageQuery({ max: 1000 }),
    status: Type.Optional(
      Type.Enum(['live', 'deleted'], {
        default: 'live',
        description: 'deleted: the projects that can still be restored.',
      }),
    ),
    order: Type.Optional(
      Type.Enum(['newest', 'size'], { default: 'newest', description: 'size: the largest first.' }),
    ),
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        pattern: '^[^\\u0000-\\u001f\\u007f]*$',
        description: 'A part of the name or of the slug, in upper or lower case.',
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
  api_key: Type.String({ description: 'The project key. It is shown only once.', examples: ['rh_proj_…'] }),
});
export const ConnectionResponse = success({
  connection: Type.Object(
    {
      url: Type.String({ description: 'For psql and PostgreSQL drivers. Contains the password.' }),
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
