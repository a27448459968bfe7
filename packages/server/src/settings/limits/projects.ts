// The size of a project. How many days deleted projects are kept is the setting ROWHOUSE_KEEP_DELETED_DAYS, and the highest limit_mb is
// ROWHOUSE_MAX_LIMIT_MB: packages/api/src/settings.ts declares both, with their defaults. See docs/limits.md and docs/operating.md.

/** The limit_mb of a project, if neither the request nor a dump says it. */
export const defaultLimitMb = 512;
