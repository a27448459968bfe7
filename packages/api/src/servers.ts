// Wire types of the PostgreSQL servers on which project databases live.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { Job } from './jobs.ts';

const label = Type.String({ pattern: '^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$' });
const labels = Type.Array(label, {
  maxItems: 20,
  uniqueItems: true,
  description: 'A project can ask for servers with certain labels.',
  examples: [['eu', 'ssd']],
});
const capacityMb = Type.Integer({
  minimum: 1,
  maximum: 1_000_000_000_000,
  description:
    'Megabytes for project databases. A project is placed here only if its limit_mb fits into what is left.',
});
const capacityConnections = Type.Integer({
  minimum: 1,
  maximum: 100_000,
  description:
    'At most so many connections serve requests, and never more than ROWHOUSE_CONNECTIONS. A change takes effect when the service starts again.',
});
const orNull = (schema: typeof capacityMb) => Type.Union([schema, Type.Null()]);

export const Server = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    hosts: Type.Array(Type.String(), { examples: [['db2.example.com:5432']] }),
    state: Type.Enum(['ready', 'draining', 'unavailable', 'detached'], {
      description:
        'draining: it takes no new projects. unavailable: it does not answer. detached: the installation was restored, and this server is not used until it is attached.',
    }),
    labels,
    capacity_mb: orNull(capacityMb),
    capacity_connections: orNull(capacityConnections),
    used_mb: Type.Number({ description: 'What its project databases take on disk, as last counted.' }),
    projects: Type.Integer({ description: 'As last counted.' }),
  },
  { additionalProperties: false },
);
export type Server = Static<typeof Server>;

const mb = (description: string) => Type.Number({ description });

export const ListedServer = Type.Object(
  {
    ...Server.properties,
    connections: Type.Union(
      [
        Type.Object(
          {
            used: Type.Integer({ description: 'Open connections, also those of other programs.' }),
            limit: Type.Integer({ description: "The server's max_connections." }),
          },
          { additionalProperties: false },
        ),
        Type.Null(),
      ],
      { description: 'null: the server does not answer.' },
    ),
    disk: Type.Union(
      [
        Type.Object(
          {
            free_mb: mb('What PostgreSQL can still use.'),
            total_mb: mb('The size of the disk.'),
            reserve_mb: mb('With less than this free, projects cannot grow.'),
          },
          { additionalProperties: false },
        ),
        Type.Null(),
      ],
      { description: 'The disk of the embedded PostgreSQL. null: the disk is on another machine.' },
    ),
  },
  { additionalProperties: false },
);
export type ListedServer = Static<typeof ListedServer>;

export const AddServer = Type.Object(
  {
    name: Type.String({
      pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$',
      description: 'Lowercase letters, digits and hyphens. It cannot be changed.',
    }),
    address: Type.String({
      minLength: 1,
      maxLength: 2_000,
      description:
        'postgres://user:password@host:5432/postgres, of a superuser or a role with CREATEDB and CREATEROLE. Stored encrypted, and never returned.',
    }),
    labels: Type.Optional(labels),
    capacity_mb: Type.Optional(capacityMb),
    capacity_connections: Type.Optional(capacityConnections),
  },
  { additionalProperties: false },
);
export type AddServer = Static<typeof AddServer>;

export const ChangeServer = Type.Object(
  {
    state: Type.Optional(
      Type.Enum(['ready', 'draining'], {
        description: 'ready: it takes new projects again. A detached server is attached.',
      }),
    ),
    labels: Type.Optional(labels),
    capacity_mb: Type.Optional(orNull(capacityMb)),
    capacity_connections: Type.Optional(orNull(capacityConnections)),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type ChangeServer = Static<typeof ChangeServer>;

export const ServerResponse = success({ server: Server });
export type ServerResponse = Static<typeof ServerResponse>;

export const RemovedServerResponse = success({
  server: Server,
  given_up: Type.Object(
    {
      projects: Type.Integer(),
      deleted_projects: Type.Integer({ description: 'Those that could still be restored.' }),
    },
    { additionalProperties: false, description: 'The projects that are given up with a lost server.' },
  ),
  left_slot: Type.Union([Type.String({ examples: ['rowhouse_backup_1a2b3c4d'] }), Type.Null()], {
    description:
      'The replication slot of the backups, if it may still be on the server because the server did not answer. It keeps WAL there until it is dropped. null: it is dropped.',
  }),
});
export type RemovedServerResponse = Static<typeof RemovedServerResponse>;

export const DrainServer = Type.Object(
  {
    move: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Move the projects of the server to others, a few at a time. A job reports the progress.',
      }),
    ),
    max_pause_ms: Type.Optional(
      Type.Integer({
        minimum: 100,
        maximum: 120_000,
        description: 'How long requests of a project may wait while it is moved. Default: 20000.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type DrainServer = Static<typeof DrainServer>;

export const DrainResponse = success({ server: Server, job: Type.Optional(Job) });
export type DrainResponse = Static<typeof DrainResponse>;
export const ServersResponse = success({
  servers: Type.Array(ListedServer, { description: 'The first one holds the control database.' }),
});
export type ServersResponse = Static<typeof ServersResponse>;
