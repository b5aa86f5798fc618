-- Rights: what roles may do with the table.
--
--   $1 text     the table, quoted as SQL wants it
--   $2 text     the control table
--   $3 text[]   names of roles
--
-- Returns  for each role that there is: name, superuser, member of the owner,
-- whether it may use the schema, select, update, insert, delete and truncate the
-- table, whether it may read and write the control table.
select r.rolname::text,
       r.rolsuper::text,
       pg_has_role(r.oid, c.relowner, 'usage')::text,
       has_schema_privilege(r.oid, c.relnamespace, 'usage')::text,
       has_any_column_privilege(r.oid, c.oid, 'select')::text,
       has_any_column_privilege(r.oid, c.oid, 'update')::text,
       has_table_privilege(r.oid, c.oid, 'insert')::text,
       has_table_privilege(r.oid, c.oid, 'delete')::text,
       has_table_privilege(r.oid, c.oid, 'truncate')::text,
       coalesce(has_table_privilege(r.oid, k.oid, 'select'), false)::text,
       coalesce(has_table_privilege(r.oid, k.oid, 'insert') and has_table_privilege(r.oid, k.oid, 'update'), false)::text
from pg_roles r
cross join pg_class c
left join pg_class k on k.oid = to_regclass($2::text)
where c.oid = to_regclass($1::text) and r.rolname = any ($3::text[])
