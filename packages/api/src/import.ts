// Wire types of imports.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { Job } from './jobs.ts';
import { CreateProject, Project } from './projects.ts';

const { name, limit_mb, slug } = CreateProject.properties;

/** For a dump as the body. */
export const ImportQuery = Type.Object(
  { name: Type.Optional(name), limit_mb, slug },
  { additionalProperties: false },
);
export type ImportQuery = Static<typeof ImportQuery>;

/** For a server to copy from. */
export const ImportFrom = Type.Object(
  {
    ...{ name, limit_mb, slug },
    from: Type.String({
      minLength: 1,
      maxLength: 2_000,
      description:
        'The address of a PostgreSQL server. sslmode: require (the default), verify-full or disable. It is neither stored nor logged.',
      examples: ['postgres://user:password@db.example.com:5432/shop?sslmode=require'],
    }),
  },
  { additionalProperties: false },
);
export type ImportFrom = Static<typeof ImportFrom>;

export const ImportResponse = success({
  project: Project,
  api_key: Type.String({ description: 'The project key. It is shown only once.', examples: ['rh_proj_…'] }),
  job: Job,
});
export type ImportResponse = Static<typeof ImportResponse>;
