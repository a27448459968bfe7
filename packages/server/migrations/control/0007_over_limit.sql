-- Projects over their limit, for the keeper to look after: found without going through all the others.
create index projects_over_limit on projects (id)
  where deleted_at is null and size_bytes - empty_bytes > limit_mb * bigint '1048576';

-- More is kept free below a limit than before: quotas/reserve.ts.
drop index projects_to_note;
create index projects_to_note on projects (noted_at)
  where deleted_at is null
    and (noted_at is null or size_bytes - empty_bytes <> noted_bytes
         or (size_bytes - empty_bytes > limit_mb * bigint '1048576' - greatest(least(limit_mb, 28) * bigint '131072' + 131072,
               case when limit_mb > 28 then bigint '1048576' + least(8388608, limit_mb * bigint '65536') else 0 end))
            <> noted_full);
