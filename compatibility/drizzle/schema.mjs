// The table of 0000_notes.sql, for Drizzle.
import { bigint, integer, jsonb, pgTable, text, timestamp } from 'drizzle-orm/pg-core';

export const notesTable = pgTable('notes', {
  id: integer().primaryKey().generatedAlwaysAsIdentity(),
  text: text().notNull().unique(),
  tags: text().array().notNull().default([]),
  data: jsonb(),
  size: bigint({ mode: 'bigint' }),
  at: timestamp({ withTimezone: true }).notNull().defaultNow(),
});
