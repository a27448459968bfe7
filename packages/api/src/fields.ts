// What the schemas of many endpoints are made of. Not exported by the package.
import Type from 'typebox';

export const time = Type.String({ format: 'date-time' });
export const maybeTime = Type.Union([time, Type.Null()]);

export const orNull = <T extends Type.TSchema>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { description });

/** Of an object that takes no other fields. */
export const closed = { additionalProperties: false } as const;
