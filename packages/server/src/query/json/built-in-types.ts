// PostgreSQL 18's built-in types, as in pg_type: the oid and name of each, and the oid and element of each array type
// (with its delimiter if it is not a comma). A test compares this with the server it runs on.
export const baseTypes = `
  16 bool,17 bytea,18 char,19 name,20 int8,21 int2,23 int4,24 regproc,25 text,26 oid,27 tid,28
  xid,29 cid,32 pg_ddl_command,114 json,142 xml,194 pg_node_tree,269 table_am_handler,325
  index_am_handler,600 point,601 lseg,602 path,603 box,604 polygon,628 line,650 cidr,700 float4,701
  float8,705 unknown,718 circle,774 macaddr8,790 money,829 macaddr,869 inet,1033 aclitem,1042
  bpchar,1043 varchar,1082 date,1083 time,1114 timestamp,1184 timestamptz,1186 interval,1266 timetz,
  1560 bit,1562 varbit,1700 numeric,1790 refcursor,2202 regprocedure,2203 regoper,2204 regoperator,
  2205 regclass,2206 regtype,2249 record,2275 cstring,2276 any,2277 anyarray,2278 void,2279 trigger,
  2280 language_handler,2281 internal,2283 anyelement,2776 anynonarray,2950 uuid,2970 txid_snapshot,
  3115 fdw_handler,3220 pg_lsn,3310 tsm_handler,3361 pg_ndistinct,3402 pg_dependencies,3500 anyenum,
  3614 tsvector,3615 tsquery,3642 gtsvector,3734 regconfig,3769 regdictionary,3802 jsonb,3831
  anyrange,3838 event_trigger,3904 int4range,3906 numrange,3908 tsrange,3910 tstzrange,3912 daterange,
  3926 int8range,4072 jsonpath,4089 regnamespace,4096 regrole,4191 regcollation,4451 int4multirange,
  4532 nummultirange,4533 tsmultirange,4534 tstzmultirange,4535 datemultirange,4536 int8multirange,4537
  anymultirange,4538 anycompatiblemultirange,4600 pg_brin_bloom_summary,4601
  pg_brin_minmax_multi_summary,5017 pg_mcv_list,5038 pg_snapshot,5069 xid8,5077 anycompatible,5078
  anycompatiblearray,5079 anycompatiblenonarray,5080 anycompatiblerange`;

export const arrayTypes = `
  22 21,30 26,143 142,199 114,271 5069,629 628,651 650,719 718,775 774,791 790,1000 16,1001 17,
  1002 18,1003 19,1005 21,1006 22,1007 23,1008 24,1009 25,1010 27,1011 28,1012 29,1013 30,1014
  1042,1015 1043,1016 20,1017 600,1018 601,1019 602,1020 603 ;,1021 700,1022 701,1027 604,1028 26,
  1034 1033,1040 829,1041 869,1115 1114,1182 1082,1183 1083,1185 1184,1187 1186,1231 1700,1263
  2275,1270 1266,1561 1560,1563 1562,2201 1790,2207 2202,2208 2203,2209 2204,2210 2205,2211 2206,
  2287 2249,2949 2970,2951 2950,3221 3220,3643 3614,3644 3642,3645 3615,3735 3734,3770 3769,3807
  3802,3905 3904,3907 3906,3909 3908,3911 3910,3913 3912,3927 3926,4073 4072,4090 4089,4097 4096,
  4192 4191,5039 5038,6150 4451,6151 4532,6152 4533,6153 4534,6155 4535,6157 4536`;
