// A project as a file, on the wire.
import Type, { type Static } from 'typebox';

export const ExportFormat = Type.Enum(['custom', 'sql', 'csv'], {
  description:
    "custom: pg_dump's own compressed format, for pg_restore. sql: a script for psql. csv: a zip with one CSV file for each table, without definitions and without password hashes.",
});
export type ExportFormat = Static<typeof ExportFormat>;

export const ExportProject = Type.Object(
  { format: Type.Optional({ ...ExportFormat, default: 'custom' }) },
  { additionalProperties: false },
);
export type ExportProject = { format?: ExportFormat };
