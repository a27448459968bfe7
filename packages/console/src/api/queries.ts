// What screens read of the service, each with its cache key. A screen that changes something invalidates these keys.
import type {
  ConsoleProfileResponse,
  JobsResponse,
  KeysResponse,
  LogsResponse,
  ProjectResponse,
  ProjectsResponse,
  SchemaResponse,
  ServersResponse,
  TablesResponse,
  UsageResponse,
} from '@rowhouse/api';
import { infiniteQueryOptions, keepPreviousData, QueryClient, queryOptions } from '@tanstack/react-query';
import { ApiError } from './error.ts';
import { api, path, sessionRequest } from './request.ts';

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (count, error) =>
        count < 2 && error instanceof ApiError && [0, 429, 502, 503].includes(error.status),
    },
  },
});

const projectsPage = 100;

/** Page by page, newest first. `search`: a part of the name or of the slug; the service searches all projects. */
export const projectPagesQuery = (status: 'live' | 'deleted', search = '') =>
  infiniteQueryOptions({
    queryKey: ['projects', status, search],
    queryFn: ({ signal, pageParam: page }) =>
      api.get<ProjectsResponse>(
        'projects',
        { limit: projectsPage, page, status, search: search || undefined },
        signal,
      ),
    initialPageParam: 1,
    getNextPageParam: ({ page, has_more }) => (has_more ? page + 1 : undefined),
    // A project that was created meanwhile moves others to the next page: each is shown once.
    select: ({ pages }) => [
      ...new Map(pages.flatMap(({ projects }) => projects).map((project) => [project.id, project])).values(),
    ],
    placeholderData: keepPreviousData,
  });

/** The newest projects that match, for a short list. */
export const foundProjectsQuery = (search: string) =>
  queryOptions({
    queryKey: ['projects', 'found', search],
    queryFn: ({ signal }) =>
      api.get<ProjectsResponse>('projects', { limit: 50, search: search || undefined }, signal),
    select: (answer) => answer.projects,
    placeholderData: keepPreviousData,
  });

export const projectQuery = (slug: string) =>
  queryOptions({
    queryKey: ['project', slug],
    queryFn: ({ signal }) => api.get<ProjectResponse>(path`projects/${slug}`, undefined, signal),
    select: (answer) => answer.project,
  });

export const tablesQuery = (slug: string) =>
  queryOptions({
    queryKey: ['project', slug, 'tables'],
    queryFn: ({ signal }) => api.get<TablesResponse>(path`projects/${slug}/tables`, undefined, signal),
    select: (answer) => answer.tables,
  });

export const schemaQuery = (slug: string) =>
  queryOptions({
    queryKey: ['project', slug, 'schema'],
    queryFn: ({ signal }) => api.get<SchemaResponse>(path`projects/${slug}/schema`, undefined, signal),
  });

export const keysQuery = (slug: string) =>
  queryOptions({
    queryKey: ['project', slug, 'keys'],
    queryFn: ({ signal }) => api.get<KeysResponse>(path`projects/${slug}/keys`, undefined, signal),
    select: (answer) => answer.keys,
  });

export const usageQuery = (slug: string) =>
  queryOptions({
    queryKey: ['project', slug, 'usage'],
    queryFn: ({ signal }) => api.get<UsageResponse>(path`projects/${slug}/usage`, undefined, signal),
  });

export const logsQuery = (slug: string) =>
  queryOptions({
    queryKey: ['project', slug, 'logs'],
    queryFn: ({ signal }) => api.get<LogsResponse>(path`projects/${slug}/logs`, undefined, signal),
  });

export const serversQuery = () =>
  queryOptions({
    queryKey: ['servers'],
    queryFn: ({ signal }) => api.get<ServersResponse>('servers', undefined, signal),
    select: (answer) => answer.servers,
  });

/** The person of the session, and the accounts that they belong to. */
export const personQuery = () =>
  queryOptions({
    queryKey: ['person'],
    queryFn: () => sessionRequest<ConsoleProfileResponse>('GET', 'person'),
  });

export const jobsQuery = () =>
  queryOptions({
    queryKey: ['jobs'],
    queryFn: ({ signal }) => api.get<JobsResponse>('jobs', undefined, signal),
    select: (answer) => answer.jobs,
  });

export type Table = SchemaResponse['tables'][number];
export type Column = Table['columns'][number];
export type Reference = Table['references'][number];
