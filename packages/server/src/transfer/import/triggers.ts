// session_replication_role = replica, which only a superuser can set: while a dump fills tables that have their triggers
// already, none of them runs. Those that check foreign keys still do (set-aside.ts).
import type { ImportSession } from './import-session.ts';

export class Triggers {
  private readonly session: ImportSession;
  /** Quoted names of the disabled ones, and of their tables. */
  private disabled: { table: string; name: string }[] = [];

  constructor(session: ImportSession) {
    this.session = session;
  }

  /** Whether the statement was SET, which need not run itself. RESET runs, too: it can be about other settings as well. */
  async take(text: string): Promise<boolean> {
    if (text.length > 200) return false;
    const [, value] = role.exec(text) ?? [];
    if (value?.toLowerCase() === 'replica') await this.disable();
    else if (value !== undefined || /^reset\s+(?:all|session_replication_role)\s*;?$/i.test(text))
      await this.enable();
    return value !== undefined;
  }

  private async disable(): Promise<void> {
    const found = await this.session.read(findTriggers, []);
    for (const [table = null, name = null] of found) {
      if (table === null || name === null) continue;
      const { error } = await this.session.run(`alter table ${table} disable trigger ${name}`);
      if (!error) this.disabled.push({ table, name });
    }
  }

  async enable(): Promise<void> {
    for (const { table, name } of this.disabled.splice(0))
      await this.session.run(`alter table ${table} enable trigger ${name}`);
  }
}

const role = /^set\s+(?:local\s+|session\s+)?session_replication_role\s*(?:=|to)\s*'?(\w+)'?\s*;?$/i;

/** The enabled triggers of the project's own tables. Triggers of partitions are left out: PostgreSQL changes them together with their parent's. */
const findTriggers = `
  select pg_catalog.format('%I.%I', nspname, relname), pg_catalog.quote_ident(tgname)
  from pg_catalog.pg_trigger
    join pg_catalog.pg_class c on c.oid = tgrelid join pg_catalog.pg_namespace n on n.oid = relnamespace
  where not tgisinternal and tgenabled = 'O' and tgparentid = 0 and relowner = current_user::pg_catalog.regrole
  order by 1, 2`;
