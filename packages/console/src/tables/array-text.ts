// An array of JSON values as PostgreSQL reads it: {1,2}. The API takes arrays as they are; a statement that is shown cannot.
import { kindOf } from '../grid/value.ts';

/** `type`: of the array, such as text[]. */
export function arrayText(values: readonly unknown[], type: string): string {
  const isJson = kindOf(elementOf(type)) === 'json';
  return `{${values.map((value) => elementText(value, isJson)).join(',')}}`;
}

/** The type itself if it is no array. */
export const elementOf = (type: string) => type.replace(/(\[\])+$/, '');

/** An array within an array of json is one document, in any other array it is a further dimension. */
function elementText(value: unknown, isJson: boolean): string {
  if (value === null || value === undefined) return 'NULL';
  if (!isJson && Array.isArray(value)) return `{${value.map((one) => elementText(one, isJson)).join(',')}}`;
  const text = isJson || typeof value === 'object' ? JSON.stringify(value) : String(value);
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}
