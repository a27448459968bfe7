// What the caller's role allows: every route of the API names its action, and a request is refused before its body is read.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { errors } from '../../errors/errors.ts';
import type { AccountRates } from '../../keys/account-rates.ts';
import type { AccountCaller, Caller, OperatorCaller } from '../../keys/caller.ts';
import { type Action, isAllowed } from '../../keys/roles.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route does, for the table of roles. Keys of projects have scopes instead, which the route checks itself. */
    action?: Action;
  }
}

/** Call it before the routes are registered, and after the hook that identifies the caller. */
export function authorizeByRole(api: FastifyInstance, rates: AccountRates): void {
  api.addHook('onRoute', ({ url, method, config }) => {
    if (!config?.action) throw new Error(`The route ${method} ${url} names no action.`);
  });
  api.addHook('onRequest', async (request) => {
    const { action } = request.routeOptions.config;
    if (request.caller) rates.require(request.caller);
    if (action) requireAction(request, action);
  });
}

type Who = { caller: Caller | null; operator: OperatorCaller | null };

export function requireAction({ caller, operator }: Who, action: Action): void {
  if (operator) {
    if (!isAllowed('operator', action)) throw errors.operatorForbidden();
  } else if (caller?.kind === 'account') {
    if (!mayAct(caller, action)) throw errors.roleForbidden(caller.role);
  } else if (action === 'service.operate' || action === 'accounts.manage') {
    throw errors.forbidden('A project key cannot do this.', 'Use an operator key (rh_oper_…).');
  }
}

function mayAct({ role, isOperator }: AccountCaller, action: Action): boolean {
  if (isAllowed(role, action)) return true;
  return isOperator && isAllowed('operator', action);
}

/** Who operates the service: an operator key, or an admin of the operator's own account. */
export function operatorOf({ caller, operator }: FastifyRequest): OperatorCaller | AccountCaller {
  if (operator) return operator;
  if (caller?.kind !== 'account' || !caller.isOperator)
    throw new Error('A route for operators did not name its action.');
  return caller;
}

/** To whom a job of theirs belongs. null: the operator of the service. */
export function accountOf(operator: OperatorCaller | AccountCaller): string | null {
  return operator.kind === 'operator' ? null : operator.accountId;
}
