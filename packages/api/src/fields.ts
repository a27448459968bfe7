// Fields and options that the schemas of many endpoints share. The package does not export them.
import Type from 'typebox';

export const time = Type.String({ format: 'date-time' });
export const maybeTime = Type.Union([time, Type.Null()]);

export const orNull = <T extends Type.TSchema>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { description });

/** Options for an object that accepts no other fields. */
export const closed = { additionalProperties: false } as const;
