// TypeScript types as text: objects, unions and lists, with comments. Names and comments come from an untrusted schema,
// so they are escaped: no content of theirs can become code.
import { clean, formatJson } from './table.ts';

export type Field = {
  name: string;
  isOptional?: boolean;
  comment?: string | null | undefined;
  shape: Shape;
};
export type Shape = string | readonly Field[] | { either: readonly Shape[] } | { listOf: Shape };

const lineWidth = 100;

/** `depth`: the indentation of the line in which the text begins. */
export function writeShape(shape: Shape, depth: number): string {
  if (typeof shape === 'string') return shape;
  if ('listOf' in shape) return `${writeShape(shape.listOf, depth)}[]`;
  if ('either' in shape) return writeEither(shape.either, depth);
  const indent = '  '.repeat(depth + 1);
  const lines = shape.flatMap(({ name, isOptional, comment, shape: of }) => [
    ...(comment ? commentLines(comment).map((line) => indent + line) : []),
    `${indent}${key(name)}${isOptional ? '?' : ''}: ${writeShape(of, depth + 1)};`,
  ]);
  return ['{', ...lines, `${'  '.repeat(depth)}}`].join('\n');
}

/** By code units, so that the order is the same on every machine. */
export function sorted(fields: readonly Field[]): Field[] {
  return [...fields].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** Quoted, without characters that a terminal or an editor would interpret. */
export function stringLiteral(text: string): string {
  return formatJson(text);
}

function writeEither(shapes: readonly Shape[], depth: number): string {
  const texts = shapes.map((shape) => writeShape(shape, depth + 2));
  const line = texts.join(' | ');
  if (!line.includes('\n') && line.length + depth * 2 <= lineWidth) return line;
  const indent = '  '.repeat(depth + 1);
  return ['', ...texts.map((text) => `${indent}| ${text}`)].join('\n');
}

function key(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : stringLiteral(name);
}

function commentLines(comment: string): string[] {
  const lines = comment
    .split(/\r\n|[\n\r\u2028\u2029]/)
    // The end of a comment, and the directives that the compiler reads from comments.
    .map((line) => clean(line).replaceAll('*/', '*\\/').replaceAll('@ts-', '\\@ts-').trimEnd());
  const [only = ''] = lines;
  if (lines.length === 1) return [`/** ${only} */`];
  return ['/**', ...lines.map((line) => (line ? ` * ${line}` : ' *')), ' */'];
}
