-- Projects over their limit, for the keeper to look after: found without going through all the others.
create index projects_over_limit on projects (id)
  where deleted_at is null and size_bytes - empty_bytes > limit_mb * bigint '1048576';
