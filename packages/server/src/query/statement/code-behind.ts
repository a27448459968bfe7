// What is behind a relation. These CTEs find the code of the project that a statement on the relation may run: in its policies, views,
// defaults, triggers and partitions, and in those of every relation that these read. Stored expressions are read by oid, as PostgreSQL
// stores them. Harmless objects are listed; everything else counts as code. reachable-code.ts asks the same about the names in a
// statement.
import { harmlessFunctions } from './harmless-functions.ts';

export const firstUserOid = '16384';
export const superuser = '10';
export const isOwn = (oid: string) => `${oid} operator(pg_catalog.>=) ${firstUserOid}`;
const catalogOf = (name: string) => `'pg_catalog.${name}'::pg_catalog.regclass`;
const textArray = (values: Iterable<string>) => `'{${[...values].join(',')}}'::pg_catalog.text[]`;

/**
 * Nodes of stored expressions, and of the queries in policies and views. CASE, WHEN and similar are the names that
 * PostgreSQL 16 uses. Not among them: what locks rows, samples a table, or takes XML or JSON apart.
 */
const knownNodes = textArray(
  `VAR CONST FUNCEXPR OPEXPR DISTINCTEXPR NULLIFEXPR SCALARARRAYOPEXPR BOOLEXPR RELABELTYPE COERCEVIAIO ARRAYCOERCEEXPR
  COLLATEEXPR CASEEXPR CASEWHEN CASETESTEXPR ARRAYEXPR ROWEXPR ROWCOMPAREEXPR COALESCEEXPR MINMAXEXPR SQLVALUEFUNCTION
  NULLTEST BOOLEANTEST NEXTVALUEEXPR SUBSCRIPTINGREF FIELDSELECT CASE WHEN ARRAY ROW COALESCE MINMAX
  QUERY SUBLINK PARAM RANGETBLENTRY RTEPERMISSIONINFO RANGETBLREF RANGETBLFUNCTION ALIAS FROMEXPR JOINEXPR TARGETENTRY
  SORTGROUPCLAUSE AGGREF WINDOWFUNC WINDOWCLAUSE COMMONTABLEEXPR SETOPERATIONSTMT GROUPINGSET GROUPINGFUNC`.split(
    /\s+/,
  ),
);
/**
 * Numeric fields that are not oids of possible code: positions in a text, the sequence of an identity column, the table that a
 * result's column comes from, and flags.
 */
const harmlessNumbers = textArray([
  'location',
  'stmt_location',
  'stmt_len',
  'seqid',
  'resorigtbl',
  'frameOptions',
]);
const functionNumbers = textArray(['funcid', 'aggfnoid', 'winfnoid']);
export const harmless = textArray(harmlessFunctions);

/** A type whose input, output, comparison or conversion may run code. */
export function isOwnType(oid: string): string {
  return `(${isOwn(oid)} and not exists (
    select from pg_catalog.pg_type as type
    left join pg_catalog.pg_type as element on element.oid operator(pg_catalog.=) type.typelem
      and type.typsubscript operator(pg_catalog.=) 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
    where type.oid operator(pg_catalog.=) ${oid}
      and (${isPlainEnum('type')} or ${isPlainEnum('element')} or element.oid operator(pg_catalog.<) ${firstUserOid})
      and not exists (select from pg_catalog.pg_cast where ${oid} in (castsource, casttarget))))`;
}

/** An enum with its own casts or operators can run code. */
function isPlainEnum(type: string): string {
  return `(${type}.typtype operator(pg_catalog.=) 'e'
        and not exists (select from pg_catalog.pg_cast where ${type}.oid in (castsource, casttarget))
        and not exists (select from pg_catalog.pg_operator where ${type}.oid in (oprleft, oprright)))`;
}

/** Row security holds for this role: owners are exempt, unless it is forced. */
export function isSecured(relation: string, role = 'current_user'): string {
  return `(${relation}.relrowsecurity and (${relation}.relforcerowsecurity
        or not pg_catalog.pg_has_role(${role}, ${relation}.relowner, 'usage')))`;
}

/** A view with security_invoker reads as whoever asks, also where another view names it. */
const readsAsCaller = `coalesce((
          select option_value::pg_catalog.bool from pg_catalog.pg_options_to_table(class.reloptions)
          where option_name operator(pg_catalog.=) 'security_invoker'), false)`;

/** What the policies of users ask. The project can neither replace these functions nor create others in this schema. */
function isIdentityFunction(oid: string): string {
  return `exists (
        select from pg_catalog.pg_proc as identity
        join pg_catalog.pg_namespace as own on own.oid operator(pg_catalog.=) identity.pronamespace
        where identity.oid operator(pg_catalog.=) ${oid}
          and own.nspname operator(pg_catalog.=) 'auth' and identity.proowner operator(pg_catalog.=) own.nspowner
          and pg_catalog.pg_get_userbyid(own.nspowner) operator(pg_catalog.=)
            pg_catalog.concat(pg_catalog.current_database(), '_auth')::pg_catalog.name
          and identity.proname operator(pg_catalog.=) any ('{uid,role,email,jwt}'::pg_catalog.name[])
          and identity.pronargs operator(pg_catalog.=) 0)`;
}

/** The rule that makes a view a view, or says what fills a materialized view. */
const isViewsRule = `rule.ev_type operator(pg_catalog.=) '1' and rule.rulename operator(pg_catalog.=) '_RETURN'`;

/**
 * CTEs that end in `code (relation, purpose, because)`: the relations in `chosen (oid)` with parts that are not known to be
 * harmless, for statements that read them ('read'), add rows to them (also 'insert') or change rows (also 'change'), and what
 * these parts are (unshared.ts lists them).
 * When PostgreSQL plans any statement, it evaluates what it can of index expressions and similar. A foreign key makes it
 * plan a query on another table, under that table's owner. Needs `with recursive`.
 */
export const codeInChosen = `
  member (relation, oid) as (
    select oid, oid from chosen
    union
    select member.relation, inhrelid
    from member join pg_catalog.pg_inherits on inhparent operator(pg_catalog.=) member.oid
  ),
  -- What a statement on the relation reads: what its policies and its view's query name, and the children of all these. Each
  -- with the role that reads it, because policies hold for that one: a view reads as its owner.
  reading (relation, purpose, oid, is_member, reader) as (
    select relation, 'read', oid, true, current_user from member
    union
    select reading.relation, next.purpose, next.oid, false, next.reader
    from reading
    cross join lateral (
      select case
          when not is_member then reading.purpose
          when polcmd operator(pg_catalog.=) 'a' then 'insert'
          when polcmd operator(pg_catalog.=) any ('{w,d}'::pg_catalog."char"[]) then 'change'
          else 'read' end,
        refobjid, reader
      from pg_catalog.pg_class as class
      join pg_catalog.pg_policy as policy on polrelid operator(pg_catalog.=) class.oid
      join pg_catalog.pg_depend on objid operator(pg_catalog.=) policy.oid
        and classid operator(pg_catalog.=) ${catalogOf('pg_policy')} and refclassid operator(pg_catalog.=) ${catalogOf('pg_class')}
      where class.oid operator(pg_catalog.=) reading.oid and ${isSecured('class', 'reader')}
        and (is_member or polcmd operator(pg_catalog.=) any ('{r,*}'::pg_catalog."char"[]))
        and refobjid operator(pg_catalog.<>) reading.oid
      union all
      select reading.purpose, refobjid,
        case when ${readsAsCaller} then current_user else pg_catalog.pg_get_userbyid(class.relowner) end
      from pg_catalog.pg_class as class
      join pg_catalog.pg_rewrite as rule on ev_class operator(pg_catalog.=) class.oid
      join pg_catalog.pg_depend on objid operator(pg_catalog.=) rule.oid
        and classid operator(pg_catalog.=) ${catalogOf('pg_rewrite')} and refclassid operator(pg_catalog.=) ${catalogOf('pg_class')}
      where class.oid operator(pg_catalog.=) reading.oid and class.relkind operator(pg_catalog.=) 'v'
        and refobjid operator(pg_catalog.<>) reading.oid
      union all
      select reading.purpose, inhrelid, reader
      from pg_catalog.pg_inherits where not is_member and inhparent operator(pg_catalog.=) reading.oid
    ) as next (purpose, oid, reader)
  ),
  -- Foreign keys are checked by queries under the owner of the other table.
  pointed (relation, purpose, oid) as (
    select relation, 'insert', confrelid
    from member join pg_catalog.pg_constraint on conrelid operator(pg_catalog.=) member.oid
    where contype operator(pg_catalog.=) 'f'
    union all
    select relation, 'change', conrelid
    from member join pg_catalog.pg_constraint on confrelid operator(pg_catalog.=) member.oid
    where contype operator(pg_catalog.=) 'f'
  ),
  planned (relation, purpose, oid) as (
    select relation, purpose, oid from reading
    union all
    select relation, purpose, oid from pointed
  ),
  stored (relation, purpose, because, expression) as (
    select relation, purpose, 'index', pg_catalog.concat(indexprs::pg_catalog.text, indpred::pg_catalog.text)
    from planned join pg_catalog.pg_index on indrelid operator(pg_catalog.=) planned.oid
    where indexprs is not null or indpred is not null
    union all
    select relation, purpose, 'check', conbin::pg_catalog.text
    from planned join pg_catalog.pg_constraint on conrelid operator(pg_catalog.=) planned.oid
    where conbin is not null
    union all
    select relation, purpose, 'statistics', stxexprs::pg_catalog.text
    from planned join pg_catalog.pg_statistic_ext on stxrelid operator(pg_catalog.=) planned.oid
    where stxexprs is not null
    union all
    select relation, purpose, 'partition', partexprs::pg_catalog.text
    from planned
    join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) planned.oid
    cross join lateral pg_catalog.pg_partition_ancestors(class.oid) as ancestor (oid)
    join pg_catalog.pg_partitioned_table on partrelid operator(pg_catalog.=) ancestor.oid
    where partexprs is not null and (class.relispartition or class.relkind operator(pg_catalog.=) 'p')
    union all
    select relation, 'insert', 'default', adbin::pg_catalog.text
    from member join pg_catalog.pg_attrdef on adrelid operator(pg_catalog.=) member.oid
    union all
    select relation,
      case
        when not is_member or polcmd operator(pg_catalog.=) any ('{r,*}'::pg_catalog."char"[]) then purpose
        when polcmd operator(pg_catalog.=) 'a' then 'insert'
        else 'change' end,
      'policy', pg_catalog.concat(polqual::pg_catalog.text, polwithcheck::pg_catalog.text)
    from reading
    join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) reading.oid
    join pg_catalog.pg_policy as policy on polrelid operator(pg_catalog.=) class.oid
    where ${isSecured('class', 'reader')} and (is_member or polcmd operator(pg_catalog.=) any ('{r,*}'::pg_catalog."char"[]))
    union all
    select relation, purpose, 'view', ev_action::pg_catalog.text
    from reading
    join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) reading.oid
    join pg_catalog.pg_rewrite as rule on ev_class operator(pg_catalog.=) class.oid
    where class.relkind operator(pg_catalog.=) 'v'
  ),
  code (relation, purpose, because) as (
    select stored.relation, purpose, because
    from stored
    cross join lateral pg_catalog.regexp_matches(expression, '\\{([A-Z]+)|:([A-Za-z_]+) ([0-9]+)', 'g') as found (part)
    cross join lateral (select part[3]::pg_catalog.int8::pg_catalog.oid) as number (oid)
    left join pg_catalog.pg_proc as function
      on part[2] operator(pg_catalog.=) any (${functionNumbers}) and function.oid operator(pg_catalog.=) number.oid
    where case
      when part[1] is not null then part[1] operator(pg_catalog.<>) all (${knownNodes})
      when part[2] operator(pg_catalog.=) any (${harmlessNumbers}) then false
      -- A relation of the project's is judged like the one that names it; of PostgreSQL's own only tables are harmless.
      when part[2] operator(pg_catalog.=) 'relid' and ${isOwn('number.oid')} then not exists (
        select from reading
        where reading.relation operator(pg_catalog.=) stored.relation and reading.oid operator(pg_catalog.=) number.oid)
      when part[2] operator(pg_catalog.=) 'relid' then number.oid operator(pg_catalog.<>) 0 and not exists (
        select from pg_catalog.pg_class as class
        where class.oid operator(pg_catalog.=) number.oid and class.relkind operator(pg_catalog.=) 'r')
      when part[2] operator(pg_catalog.=) 'funcid' and ${isOwn('number.oid')} and ${isIdentityFunction('number.oid')} then false
      when ${isOwn('number.oid')} then part[2] operator(pg_catalog.!~) 'type' or ${isOwnType('number.oid')}
      when function.oid is null then part[2] operator(pg_catalog.=) any (${functionNumbers})
      else function.proname::pg_catalog.text operator(pg_catalog.<>) all (${harmless})
        and function.proname operator(pg_catalog.<>) 'nextval'
        -- A built-in cast.
        and not exists (
          select from pg_catalog.pg_cast
          where castfunc operator(pg_catalog.=) function.oid and pg_cast.oid operator(pg_catalog.<) ${firstUserOid})
    end
    union all
    -- Functions that make JSON look for a cast of each type that they get whenever they run: a later one changes no version.
    select relation, purpose, because
    from stored
    where expression operator(pg_catalog.~) 'type(id)? [0-9]{5}' and exists (
      select from pg_catalog.regexp_matches(expression, ':(?:funcid|aggfnoid|winfnoid) ([0-9]+)', 'g') as called (part)
      join pg_catalog.pg_proc as function on function.oid operator(pg_catalog.=) part[1]::pg_catalog.int8::pg_catalog.oid
      where function.proname operator(pg_catalog.~) 'json')
    union all
    -- Lists of oids, such as the types of a function's columns: none may be the project's.
    select relation, purpose, because from stored where expression operator(pg_catalog.~) '\\(o [0-9 ]*[0-9]{5}'
    union all
    select relation, purpose, 'index'
    from planned join pg_catalog.pg_index on indrelid operator(pg_catalog.=) planned.oid
    where ${firstUserOid} operator(pg_catalog.<=) any (indcollation::pg_catalog.oid[])
      or ${isOwnClassIn('indclass')}
    union all
    select relation, purpose, 'partition'
    from planned
    join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) planned.oid
    cross join lateral pg_catalog.pg_partition_ancestors(class.oid) as ancestor (oid)
    join pg_catalog.pg_partitioned_table on partrelid operator(pg_catalog.=) ancestor.oid
    where (class.relispartition or class.relkind operator(pg_catalog.=) 'p') and (
      ${firstUserOid} operator(pg_catalog.<=) any (partcollation::pg_catalog.oid[])
      or ${isOwnClassIn('partclass')})
    union all
    select relation, purpose, 'constraint'
    from planned join pg_catalog.pg_constraint on conrelid operator(pg_catalog.=) planned.oid
    where ${firstUserOid} operator(pg_catalog.<=) any (conexclop)
      or ${firstUserOid} operator(pg_catalog.<=) any (conpfeqop)
      or ${firstUserOid} operator(pg_catalog.<=) any (conffeqop)
    union all
    select relation, purpose, 'relation'
    from reading join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) reading.oid
    where class.relkind operator(pg_catalog.<>) all ('{r,m,v,p}'::pg_catalog."char"[]) or ${isOwn('class.relam')}
      -- What PostgreSQL brings as a view calls functions that are not judged here.
      or class.relkind operator(pg_catalog.=) 'v' and class.oid operator(pg_catalog.<) ${firstUserOid}
      or class.relhasrules and exists (
        select from pg_catalog.pg_rewrite as rule
        where ev_class operator(pg_catalog.=) class.oid and not (${isViewsRule}))
    union all
    select relation, purpose, 'column'
    from reading join pg_catalog.pg_attribute on attrelid operator(pg_catalog.=) reading.oid
    where attnum operator(pg_catalog.>) 0 and not attisdropped and (
      attgenerated operator(pg_catalog.=) 'v' or ${isOwn('attcollation')} or ${isOwnType('atttypid')})
    union all
    select relation, 'insert', 'trigger'
    from member join pg_catalog.pg_trigger on tgrelid operator(pg_catalog.=) member.oid
    where not tgisinternal
    union all
    -- What is written through a view is not followed.
    select relation, 'insert', 'relation'
    from member join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) member.oid
    where class.relkind operator(pg_catalog.<>) all ('{r,p}'::pg_catalog."char"[])
    union all
    select relation, purpose, 'foreign key'
    from pointed join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) pointed.oid
    where class.relkind operator(pg_catalog.<>) 'r' or class.relforcerowsecurity
    union all
    -- The change cascades to rows of other tables.
    select relation, 'change', 'foreign key'
    from member join pg_catalog.pg_constraint on confrelid operator(pg_catalog.=) member.oid
    where confupdtype operator(pg_catalog.=) any ('{c,n,d}'::pg_catalog."char"[])
      or confdeltype operator(pg_catalog.=) any ('{c,n,d}'::pg_catalog."char"[])
  )`;

/** An operator class that no superuser owns: those of extensions are exempt. */
function isOwnClassIn(list: string): string {
  return `(${firstUserOid} operator(pg_catalog.<=) any (${list}::pg_catalog.oid[]) and exists (
        select from pg_catalog.pg_opclass
        where pg_opclass.oid operator(pg_catalog.=) any (${list}::pg_catalog.oid[])
          and opcowner operator(pg_catalog.<>) ${superuser} and ${isOwn('pg_opclass.oid')}))`;
}
