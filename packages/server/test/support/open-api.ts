// The operations of a service, as its OpenAPI document lists them.
import type { TestService } from './helpers.ts';

export type Route<Operation> = { method: string; path: string; operation: Operation };

/** `Operation`: what the test reads of it. */
export async function readOpenApi<Operation, Schema = unknown>({
  call,
}: Pick<TestService, 'call'>): Promise<{ routes: Route<Operation>[]; schemas: Record<string, Schema> }> {
  const { body } = await call('GET', '/openapi.json', { key: '' });
  const paths = Object.entries(body.paths as Record<string, Record<string, Operation>>);
  const routes = paths.flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  return { routes, schemas: body.components.schemas };
}
