create table "notes" (
  "id" integer primary key generated always as identity,
  "text" text not null unique,
  "tags" text[] not null default '{}',
  "data" jsonb,
  "size" bigint,
  "at" timestamp with time zone not null default now()
);
--> statement-breakpoint
create index "notes_at" on "notes" ("at");
