export * from './envelope.ts';
export * from './error-codes.ts';
export * from './keys.ts';
export * from './projects.ts';
export * from './query.ts';
export * from './service.ts';
export * from './tables.ts';
export * from './users.ts';
