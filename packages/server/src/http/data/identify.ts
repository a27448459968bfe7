// The first steps of a request for data: who calls, what the caller's role allows, and which user it acts for. A caller whose
// key is cached costs no await.
import { isActingToken } from '../../access/end-users/acting-tokens.ts';
import { errors } from '../../errors/errors.ts';
import type { Caller } from '../../keys/caller.ts';
import { requireAction } from '../request/authorize.ts';
import { readKeyAndToken, tokenNotAccepted } from '../request/caller.ts';
import { actingLogin } from './acting-user.ts';
import type { DataRequest, Step } from './data-request.ts';

export const identifyByKey: Step = (request) => {
  const { deps, route, exchange } = request;
  const { key, accessToken } = readKeyAndToken(exchange.headers, route.acceptsToken);
  request.accessToken = accessToken;
  request.caller = deps.keyRing.recall(key);
  if (request.caller) return;
  return deps.keyRing.verifyAny(key).then((found) => {
    if (found.kind === 'operator') request.operator = found;
    else request.caller = found;
  });
};

export const authorize: Step = (request) => {
  const { deps, route } = request;
  if (route.action) {
    if (request.caller) deps.rates.require(request.caller);
    requireAction(request, route.action);
  }
  if (request.operator) throw errors.operatorForbidden();
};

/** Before the body is read, and before a repeated request is answered. */
export const admitUser: Step = (request) => {
  const { deps, route, accessToken, params } = request;
  const caller = callerOf(request);
  // Users never run SQL themselves, however the caller was identified.
  if (accessToken !== null && route.acceptsToken === 'acting' && !isActingToken(accessToken))
    throw tokenNotAccepted();
  // A publishable key never runs SQL, not even as anon.
  const isAnonymous = caller.kind === 'publishable' && route.acceptsToken === true;
  if (accessToken === null && !isAnonymous) return;
  const login = actingLogin(deps, caller, params.slug, accessToken);
  if (!(login instanceof Promise)) request.login = login;
  else
    return login.then((found) => {
      request.login = found;
    });
};

/** The step that needs it comes after the one that identifies it. */
export function callerOf({ caller }: DataRequest): Caller {
  if (!caller) throw new Error('A request for data has no caller.');
  return caller;
}

/** The project, if no step before has found it. */
export const findProject: Step = (request) => {
  const { deps, params } = request;
  const caller = callerOf(request);
  request.login ??= deps.logins.recall(caller, params.slug);
  if (request.login) return;
  return deps.logins.of(caller, params.slug).then((login) => {
    request.login = login;
  });
};
