// Check constraints that reject the rows of their own dump. pg_dump writes them before the rows, and a function that they call may
// read a table whose rows come later, or name a table without its schema, which is not found while a dump is loaded. The
// rows are what must not be lost: they are loaded without the constraint, and it is validated when everything is there.
import { sql } from '../../postgres/sql.ts';
import type { ImportSession, Outcome } from './import-session.ts';
import type { Entry } from './origin.ts';
import type { Reporting } from './report.ts';

/** Names are quoted, and those of tables have their schema. */
type Constraint = Readonly<{ table: string; name: string; definition: string; comment: string | null }>;

export class SetAside {
  private readonly session: ImportSession;
  private readonly report: Reporting;
  /** By table and name. A partition after the other can reject rows. */
  private readonly unchecked = new Map<string, Constraint>();
  private readonly references = new Map<string, Constraint>();

  constructor(session: ImportSession, report: Reporting) {
    this.session = session;
    this.report = report;
  }

  /** null: the table has none. Otherwise they are back afterwards, without a look at the rows. */
  async whileWithout(entry: Entry, act: () => Promise<Outcome>): Promise<Outcome | null> {
    const constraints = await this.find(entry, 'c');
    if (constraints.length === 0) return null;
    for (const { table, name } of constraints)
      await this.session.run(`alter table ${table} drop constraint ${name}`);
    const outcome = await act();
    for (const constraint of constraints) await this.putBack(constraint);
    return outcome;
  }

  /** The foreign keys of a table that reject its rows, until everything is there. False: it has none. */
  async withoutReferences(entry: Entry): Promise<boolean> {
    const found = await this.find(entry, 'f');
    for (const constraint of found) {
      const { table, name } = constraint;
      const { error } = await this.session.run(`alter table ${table} drop constraint ${name}`);
      if (!error) this.references.set(`${table} ${name}`, constraint);
    }
    return found.length > 0;
  }

  /** With the rows as they are, or else only for new ones. */
  private async putBackReferences(): Promise<void> {
    for (const { table, name, definition, comment } of this.references.values()) {
      const add = `alter table ${table} add constraint ${name} ${definition.replace(/ not valid$/i, '')}`;
      const { error } = await this.session.run(add);
      if (error) {
        const late = await this.session.run(`${add} not valid`);
        const reason = this.report.explainReference(error);
        const kept = late.error ? reason : `It is here, but NOT VALID. ${reason}`;
        this.report.skip(`FK CONSTRAINT ${table} ${name}`, kept);
      }
      if (comment !== null)
        await this.session.run(`comment on constraint ${name} on ${table} is ${sql.literal(comment).text}`);
    }
    this.references.clear();
  }

  async validate(): Promise<void> {
    await this.putBackReferences();
    for (const { table, name } of this.unchecked.values()) {
      const { error } = await this.session.run(`alter table ${table} validate constraint ${name}`);
      if (error)
        this.report.skip(
          `CHECK CONSTRAINT ${table} ${name}`,
          `It is here, but NOT VALID: it rejects rows of the dump (${error.message}).`,
        );
    }
  }

  private async putBack(constraint: Constraint): Promise<void> {
    const { table, name, definition, comment } = constraint;
    const { error } = await this.session.run(
      `alter table ${table} add constraint ${name} ${definition} not valid`,
    );
    if (error) {
      this.report.skip(`CHECK CONSTRAINT ${table} ${name}`, error.message);
      return;
    }
    this.unchecked.set(`${table} ${name}`, constraint);
    if (comment !== null)
      await this.session.run(`comment on constraint ${name} on ${table} is ${sql.literal(comment).text}`);
  }

  /** Where they were defined: those of a partition or a child can be changed at the parent only. */
  private async find({ schema, name }: Entry, type: 'c' | 'f'): Promise<Constraint[]> {
    const rows = await this.session.read(findConstraints, [schema ?? 'public', name, type]);
    return rows.map(([table, constraint, definition, comment]) => ({
      table: table ?? '',
      name: constraint ?? '',
      definition: definition ?? '',
      comment: comment ?? null,
    }));
  }
}

const findConstraints = `
  with recursive tables as (
    select c.oid as id from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
    where nspname = $1 and relname = $2
    union
    select inhparent from pg_catalog.pg_inherits join tables on inhrelid = id
  )
  select pg_catalog.format('%I.%I', nspname, relname), pg_catalog.quote_ident(conname),
         pg_catalog.pg_get_constraintdef(k.oid), pg_catalog.obj_description(k.oid, 'pg_constraint')
  from pg_catalog.pg_constraint k
    join pg_catalog.pg_class c on c.oid = conrelid join pg_catalog.pg_namespace n on n.oid = relnamespace
  where conrelid in (select id from tables) and contype = $3::"char" and (convalidated or contype = 'f') and coninhcount = 0
  order by 1, 2`;
