-- An import that could not take everything is not done like one that could: its status says so.
alter table jobs
  drop constraint jobs_status_check,
  drop constraint jobs_check2,
  add constraint jobs_status_check
    check (status in ('running', 'done', 'done_with_losses', 'failed', 'cancelled')),
  add constraint jobs_result_check check (status in ('done', 'done_with_losses') or result is null);
