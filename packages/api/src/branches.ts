// Wire types of branches.
import Type, { type Static } from 'typebox';
import { success, title } from './envelope.ts';
import { Job } from './jobs.ts';
import { CreatedProjectResponse, CreateProject, Project } from './projects.ts';

const { slug } = CreateProject.properties;

export const CreateBranch = Type.Object(
  {
    name: title,
    slug,
    limit_mb: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "The parent's limit if omitted. At least what the parent stores.",
      }),
    ),
    mode: Type.Optional(
      Type.Enum(['copy', 'live'], {
        default: 'copy',
        description:
          'copy: requests of the parent wait while its files are copied. live: a job exports the parent and imports the copy. The parent is not paused; the branch has the status creating until the job is done.',
      }),
    ),
    at: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description:
          'The branch gets the state of this earlier time, from the backups. A job fills it. Without it: the present state.',
      }),
    ),
    expires_at: Type.Optional(
      Type.String({ format: 'date-time', description: 'The branch is deleted after this time.' }),
    ),
  },
  { additionalProperties: false },
);
export type CreateBranch = Static<typeof CreateBranch>;

export const CreatedBranchResponse = success({
  project: Project,
  api_key: CreatedProjectResponse.properties.api_key,
  job: Type.Optional({ ...Job, description: 'Only of a live branch, and of one with "at".' }),
});
export type CreatedBranchResponse = Static<typeof CreatedBranchResponse>;

export const BranchesResponse = success({ branches: Type.Array(Project) });
export type BranchesResponse = Static<typeof BranchesResponse>;

export const PromotedResponse = success({
  project: Project,
  replaced: { ...Project, description: 'The branch, deleted. Restore it to get the old data back.' },
});
export type PromotedResponse = Static<typeof PromotedResponse>;
