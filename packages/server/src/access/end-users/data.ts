// Validates the free-form `data` of a user, and the role inside it.
import { errors } from '../../errors/errors.ts';
import { ExactNumber, isJsonObject, toJsonText } from '../../query/json/json-text.ts';
import { WideObject } from '../../query/json/wide-object.ts';
import type { AuthContext } from './auth-context.ts';

export const maxDataBytes = 64 * 1024;
const maxDepth = 64;
export const defaultRole = 'authenticated';
export const roleForm = /^[\w.:-]{1,64}$/;

/** JSON text that PostgreSQL can store; `undefined` becomes an empty object. */
export function readData(data: unknown): string {
  if (data === undefined) return '{}';
  if (!isJsonObject(data)) throw bad('must be an object');
  const zeros = checkValues(data);
  const text = toJsonText(data);
  if (Buffer.byteLength(text) + zeros > maxDataBytes) throw tooMuchData();
  return text;
}

export function tooMuchData() {
  return bad(`must be at most ${maxDataBytes} bytes of JSON`);
}

/** The role that `data` asks for, if the key may assign roles; otherwise null. */
export function readRole(context: Pick<AuthContext, 'isPublic' | 'mayManage'>, data: unknown): string | null {
  const requested = isJsonObject(data) && Object.hasOwn(data, 'role') ? data.role : undefined;
  if (requested === undefined || requested === null) return null;
  if (context.isPublic) {
    throw errors.forbidden(
      'A publishable key cannot set the role of a user.',
      'Omit data.role. Users cannot change their own role; set it from your server with the project key.',
    );
  }
  if (!context.mayManage) return null;
  if (typeof requested !== 'string' || !roleForm.test(requested)) {
    throw errors.invalidRequest([
      { path: 'data.role', problem: 'must be 1 to 64 letters, digits, or . : _ -' },
    ]);
  }
  return requested;
}

/**
 * Counts the zeros that its numbers have when written out: PostgreSQL writes 1e100000 with all of them, every time.
 * Iterative, because a body may be nested as deep as its size allows.
 */
function checkValues(root: object): number {
  let zeros = 0;
  let level: object[] = [root];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > maxDepth) throw bad(`must not be nested more than ${maxDepth} deep`);
    const next: object[] = [];
    for (const holder of level) {
      // Its text has more than 64 KB.
      if (holder instanceof WideObject) throw tooMuchData();
      for (const [name, value] of Object.entries(holder)) {
        if (name.includes('\0') || (typeof value === 'string' && value.includes('\0')))
          throw bad('must not contain the character U+0000, which PostgreSQL does not support');
        if (typeof value === 'number') zeros += zerosOf(String(value));
        else if (value instanceof ExactNumber) zeros += zerosOf(value.text);
        else if (typeof value === 'object' && value !== null) next.push(value);
      }
    }
    level = next;
  }
  return zeros;
}

/** Digits after the decimal point that jsonb can store. Before the point it stores more than fit into `data`. */
const maxFraction = 16_383;

function zerosOf(number: string): number {
  const [digits = '', power = '0'] = number.toLowerCase().split('e');
  const exponent = Number(power);
  const fraction = (digits.split('.')[1]?.length ?? 0) - exponent;
  if (fraction > maxFraction)
    throw bad(`must not contain a number with more than ${maxFraction} decimal places`);
  return Math.abs(exponent);
}

function bad(problem: string) {
  return errors.invalidRequest([{ path: 'data', problem }]);
}
