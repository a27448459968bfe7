// SQL for one question: can a statement that names these objects run the project's own code? This is an allowlist: every
// reachable object must be built in (an oid below 16384), and every function must be on the list of harmless functions,
// because built-in functions can change settings or write, too. Stored expressions are read as PostgreSQL stores them, by
// oid. Exempt are enums and arrays, which run only built-in code, and objects that a superuser owns: operators and
// operator classes of extensions. All names and operators are qualified, so that the project's own objects cannot
// influence the answer.
import {
  codeInChosen,
  firstUserOid,
  harmless,
  isOwn,
  isOwnType,
  isSecured,
  superuser,
} from './code-behind.ts';

/** The schemas that the service owns. Their objects are never found by an unqualified name. */
const serviceSchemas = `(
      select oid from pg_catalog.pg_namespace
      where nspname operator(pg_catalog.=) any ('{rowhouse,auth}'::pg_catalog.name[])
        and pg_catalog.pg_get_userbyid(nspowner) operator(pg_catalog.<>) current_user)`;

const ownFunctions = `
      select from pg_catalog.pg_proc as function
      where ${isOwn('function.oid')} and function.pronamespace operator(pg_catalog.<>) all ${serviceSchemas}`;

/** $3: names of functions. `row.name` can also call a built-in function; those that are not volatile are harmless. */
const volatileFunctions = `
      select from pg_catalog.pg_proc as function
      where function.proname operator(pg_catalog.=) any ($3::pg_catalog.name[])
        and function.provolatile operator(pg_catalog.=) 'v'
        and function.proname::pg_catalog.text operator(pg_catalog.<>) all (${harmless})`;

/** A cast without a function runs the input and output functions of its types, which are checked where they are used. */
const ownCasts = `
      select from pg_catalog.pg_cast
      left join pg_catalog.pg_proc as function on function.oid operator(pg_catalog.=) castfunc
      where ${isOwn('pg_cast.oid')} and castfunc operator(pg_catalog.<>) 0 and (
        function.oid operator(pg_catalog.<) ${firstUserOid} or function.proowner operator(pg_catalog.<>) ${superuser})`;

const ownOperators = `
      select from pg_catalog.pg_operator as operator
      left join pg_catalog.pg_proc as function on function.oid operator(pg_catalog.=) operator.oprcode
      where ${isOwn('operator.oid')} and (
        operator.oprowner operator(pg_catalog.<>) ${superuser} or function.proowner operator(pg_catalog.<>) ${superuser})`;

/** A view, a foreign table, a partition, or a table with rules, children, or policies that hold for whoever asks. */
function hasMoreBehind(relation: string): string {
  return `(${relation}.relkind operator(pg_catalog.<>) all ('{r,m}'::pg_catalog."char"[]) or ${isSecured(relation)}
        or (${relation}.relhasrules and ${relation}.relkind operator(pg_catalog.<>) 'm')
        or ${relation}.relhassubclass or ${relation}.relispartition)`;
}

/** PostgreSQL resolves the names when it reads the parameter, so that the planner sees constants. */
function isRelation(oid: string): string {
  return `${oid} operator(pg_catalog.=) any ($1::pg_catalog.regclass[]::pg_catalog.oid[])`;
}

/** $4: names of types. */
const namedTypes = `
      select from pg_catalog.pg_type as named
      where named.typname operator(pg_catalog.=) any ($4::pg_catalog.name[])`;

/** $1: relations that must exist; a missing one gives null. $2: relations that may exist. */
const chosen = `
  chosen (oid) as (
    select pg_catalog.to_regclass(name)::pg_catalog.oid from pg_catalog.unnest($1::pg_catalog.text[]) as given (name)
    union all
    select found.oid
    from pg_catalog.unnest($2::pg_catalog.text[]) as given (name)
    cross join lateral (select pg_catalog.to_regclass(name)::pg_catalog.oid) as found (oid)
    where found.oid is not null
  )`;
const allExist = 'not exists (select from chosen where oid is null)';

/**
 * Earlier statements in this session may have changed how names are resolved, so that they have another meaning in the
 * next session. Then the answer is negative.
 */
const resolvesNamesAsUsual = `pg_catalog.current_setting('search_path') operator(pg_catalog.=) 'public'
    and (pg_catalog.pg_my_temp_schema() operator(pg_catalog.=) 0 or not exists (
      select from pg_catalog.pg_class where relnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema()
      union all
      select from pg_catalog.pg_type where typnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema()))`;

/** 'true' (harmless), or why it is not: see unshared.ts. Names of functions: $3, types: $4, operators: $5, collations: $6. $7: purposes. */
export const fullCheck = `
  with recursive ${chosen}, ${codeInChosen}
  select case
    when not (${resolvesNamesAsUsual} and ${allExist}) then 'name'
    when exists (select from code where purpose operator(pg_catalog.=) any ($7::pg_catalog.text[])) then (
      select pg_catalog.min(because) from code where purpose operator(pg_catalog.=) any ($7::pg_catalog.text[]))
    when exists (${ownCasts}) then 'cast'
    when exists (${ownOperators} and operator.oprname operator(pg_catalog.=) any ($5::pg_catalog.name[])) then 'operator'
    when exists (${ownFunctions} and function.proname operator(pg_catalog.=) any ($3::pg_catalog.name[]))
      or exists (${volatileFunctions}) then 'function'
    when exists (${namedTypes} and ${isOwnType('named.oid')}) then 'type'
    when exists (
      select from pg_catalog.pg_collation
      where collname operator(pg_catalog.=) any ($6::pg_catalog.name[]) and ${isOwn('pg_collation.oid')}) then 'collation'
    else 'true'
  end`;

/**
 * The same for a read in a project without code, as most projects are: without a function, operator, cast or collation of
 * its own, stored expressions contain only what PostgreSQL itself calls immutable. It takes a fraction of the time, and
 * leaves less memory allocated in the session. Returns 'full' if the project needs the full check, and 'behind' if only this
 * statement does, because of what is behind its relations.
 */
export const quickCheck = `
  with ${chosen}
  select case
    when exists (${ownFunctions}) or exists (${ownCasts}) or exists (${ownOperators}) or exists (${volatileFunctions})
      or exists (select from pg_catalog.pg_collation where ${isOwn('pg_collation.oid')})
      or exists (${namedTypes} and ${isOwn('named.oid')})
    then 'full'
    when exists (
      select from chosen join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) chosen.oid
      where ${hasMoreBehind('class')})
    then 'behind'
    else (${resolvesNamesAsUsual} and ${allExist} and not exists (
      select from chosen join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) chosen.oid
      where exists (
          select from pg_catalog.pg_attribute
          where attrelid operator(pg_catalog.=) class.oid and attnum operator(pg_catalog.>) 0 and not attisdropped and (
            attgenerated operator(pg_catalog.=) 'v' or ${isOwnType('atttypid')}))
    ))::pg_catalog.text
  end`;

/**
 * The same again, if neither the statement nor its tables have a type of the project: a quarter of the cost, and it leaves less
 * memory allocated. Here $1 are relations that must exist, and it is an error if one does not; $2 are names of types,
 * and $3 names of functions that are not on the list. Returns 'quick', 'full' or 'behind' if that check is necessary.
 */
export const leastCheck = `
  select case
    when exists (${ownFunctions}) or exists (select from pg_catalog.pg_collation where ${isOwn('oid')}) then 'full'
    when exists (select from pg_catalog.pg_cast where ${isOwn('oid')})
      or exists (select from pg_catalog.pg_operator where ${isOwn('oid')})
      or exists (
        select from pg_catalog.pg_type
        where typname operator(pg_catalog.=) any ($2::pg_catalog.name[]) and ${isOwn('oid')})
      or exists (
        select from pg_catalog.pg_proc
        where proname operator(pg_catalog.=) any ($3::pg_catalog.name[]) and provolatile operator(pg_catalog.=) 'v')
      or exists (
        select from pg_catalog.pg_attribute
        where ${isRelation('attrelid')} and attnum operator(pg_catalog.>) 0 and ${isOwn('atttypid')})
      or pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0
    then 'quick'
    when exists (
      select from pg_catalog.pg_class as class where ${isRelation('class.oid')} and ${hasMoreBehind('class')})
    then 'behind'
    else (pg_catalog.current_setting('search_path') operator(pg_catalog.=) 'public'
      and not exists (
        select from pg_catalog.pg_attribute
        where ${isRelation('attrelid')} and attgenerated operator(pg_catalog.=) 'v'))::pg_catalog.text
  end`;
