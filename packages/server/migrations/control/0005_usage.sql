-- How large projects have been. A project that changes gets a point every five minutes; the older the points, the fewer are
-- kept. One that rests gets none, and its newest point holds until the next.
create table usage_points (
  project_id text not null references projects on delete cascade,
  at timestamptz not null,
  -- What the project stored, without what an empty one takes.
  size_bytes bigint not null,
  -- Known when the next point comes; null: it is the project's newest.
  expires_at timestamptz,
  primary key (project_id, at)
);
create index usage_points_expired on usage_points (expires_at) where expires_at is not null;

-- The newest point, beside the size it is compared with: only projects that may need another one are in the index.
alter table projects
  add column noted_at timestamptz,
  add column noted_bytes bigint,
  add column noted_full boolean;
create index projects_to_note on projects (noted_at)
  where deleted_at is null
    and (noted_at is null or size_bytes - empty_bytes <> noted_bytes
         or (size_bytes - empty_bytes > limit_mb * bigint '1048576' - least(1048576, limit_mb * bigint '65536')
             - case when limit_mb > 28 then least(8388608, limit_mb * bigint '65536') else 0 end) <> noted_full);
