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

const bytes = Type.Integer({ minimum: 1, maximum: 1e14, description: 'The size of the whole dump.' });

/** For a server to copy from, or a dump that has been uploaded: one of the two. */
export const ImportFrom = Type.Object(
  {
    name,
    limit_mb,
    slug,
    from: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2_000,
        description:
          'The address of a PostgreSQL server. sslmode: require (the default), verify-full or disable. It is neither stored nor logged.',
        examples: ['postgres://user:password@db.example.com:5432/shop?sslmode=require'],
      }),
    ),
    upload: Type.Optional(
      Type.Object(
        { id: Type.String({ minLength: 1, maxLength: 100, description: 'Of POST /uploads.' }), bytes },
        {
          additionalProperties: false,
          description:
            'A dump that was uploaded in parts. If its size differs from `bytes`, it is not complete.',
        },
      ),
    ),
  },
  { additionalProperties: false },
);
export type ImportFrom = Static<typeof ImportFrom>;

export const CreateUpload = Type.Object(
  { limit_mb, bytes: Type.Optional(bytes) },
  { additionalProperties: false },
);
export type CreateUpload = Static<typeof CreateUpload>;

export const Upload = Type.Object({
  id: Type.String(),
  offset: Type.Integer({ description: 'How many bytes have arrived. The next part begins here.' }),
  max_bytes: Type.Integer({ description: '`bytes`, or else four times limit_mb and 64 MB.' }),
  expires_at: Type.String({ format: 'date-time', description: '24 hours after the last byte.' }),
});
export type Upload = Static<typeof Upload>;
export const UploadResponse = success({ upload: Upload });
export type UploadResponse = Static<typeof UploadResponse>;
export const UploadsResponse = success({ uploads: Type.Array(Upload) });
export type UploadsResponse = Static<typeof UploadsResponse>;

export const ImportResponse = success({
  project: Project,
  api_key: Type.String({ description: 'The project key. It is shown only once.', examples: ['rh_proj_…'] }),
  job: Job,
});
export type ImportResponse = Static<typeof ImportResponse>;
