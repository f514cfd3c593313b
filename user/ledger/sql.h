/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every statement of the ledger, in the SQL that SQLite and PostgreSQL share. Values are always bound. X(enum, text)
 *
 * The states in the text are names of LEDGER_STATES; a test compares them.
 */
#ifndef CORDON_LEDGER_SQL_H
#define CORDON_LEDGER_SQL_H

#include "ledger/engine.h"

/* Columns in the order in which rows.c takes them. */
#define CALL_COLUMNS                                                                              \
	"c.id, c.tenant, c.subject, c.tool, c.ikey, c.digest, c.state, c.code, c.fence, c.task,"  \
	" c.grant_id, c.scope, c.object, c.amount, c.day, c.quota, c.node, c.approval, c.result," \
	" c.created_ns, c.updated_ns"
#define APPROVAL_COLUMNS                                                                   \
	"a.id, a.state, a.decided_by, a.reason, a.created_ns, a.expires_ns, a.decided_ns," \
	" a.request, a.params"
#define GRANT_COLUMNS                                                                  \
	"id, fence, tenant, subject, task, scope, tool, object, amount_max, uses_max," \
	" issued_ns, expires_ns, revoked_ns, amount_used, uses_used"
#define HOLDING_STATES "('reserved', 'pending_approval', 'executing', 'ambiguous')"
#define RUNNING_STATES "('reserved', 'executing')"

#define LEDGER_SQL(X)                                                                                                          \
	X(GATEWAY_READ,                                                                                                        \
	  "SELECT num, epoch, beat_ns, last_call, seq, hash FROM gateways WHERE node = ?1")                                    \
	/* Waits for a transaction of ours that is still being committed by a lost connection. */                              \
	X(GATEWAY_WAIT, "UPDATE gateways SET beat_ns = beat_ns WHERE node = ?1"                                                \
			" RETURNING num, epoch, beat_ns, last_call, seq, hash")                                                \
	X(GATEWAY_WRITE, "UPDATE gateways SET beat_ns = ?1, last_call = ?2, seq = ?3, hash = ?4"                               \
			 " WHERE node = ?5 AND epoch = ?6 AND seq = ?7")                                                       \
	X(GATEWAY_NEW,                                                                                                         \
	  "INSERT INTO gateways (node, num, epoch, beat_ns, last_call, seq, hash)"                                             \
	  " SELECT ?1, (SELECT COALESCE(MAX(num), -1) + 1 FROM gateways), 0, 0, 0, 0, ''"                                      \
	  " WHERE NOT EXISTS (SELECT 1 FROM gateways WHERE node = ?2)")                                                        \
	X(GATEWAY_EPOCH, "UPDATE gateways SET epoch = epoch + 1, beat_ns = ?1 WHERE node = ?2")                                \
	X(GATEWAY_LATEST, "SELECT COALESCE(MAX(beat_ns), 0) FROM gateways")                                                    \
	/* The same as GATEWAY_WRITE for run_commit(): no row is an error (division by zero), so that nothing is committed. */ \
	X(GATEWAY_WRITE_OR_FAIL,                                                                                               \
	  "WITH done AS (UPDATE gateways SET beat_ns = ?1, last_call = ?2, seq = ?3,"                                          \
	  " hash = ?4 WHERE node = ?5 AND epoch = ?6 AND seq = ?7 RETURNING 1)"                                                \
	  " SELECT 1 / (SELECT COUNT(*) FROM done)")                                                                           \
	X(GATEWAY_DEAD,                                                                                                        \
	  "SELECT g.node FROM gateways g WHERE g.beat_ns < ?1 AND g.node <> ?2 AND EXISTS"                                     \
	  " (SELECT 1 FROM calls c WHERE c.node = g.node AND c.state IN " RUNNING_STATES ")")                                  \
	X(GATEWAY_DEAD_FENCE,                                                                                                  \
	  "UPDATE gateways SET epoch = epoch + 1 WHERE node = ?1 AND beat_ns < ?2")                                            \
	X(GATEWAYS, "SELECT node, seq, hash FROM gateways ORDER BY node")                                                      \
	X(CALL_BY_KEY, "SELECT " CALL_COLUMNS " FROM calls c"                                                                  \
		       " WHERE c.tenant = ?1 AND c.subject = ?2 AND c.tool = ?3 AND c.ikey = ?4")                              \
	X(CALL_BY_ID, "SELECT " CALL_COLUMNS " FROM calls c WHERE c.id = ?1")                                                  \
	X(CALL_INSERT,                                                                                                         \
	  "INSERT INTO calls (id, tenant, subject, tool, ikey, digest, state, code, fence, task,"                              \
	  " grant_id, scope, object, amount, day, quota, node, approval, result, created_ns,"                                  \
	  " updated_ns)"                                                                                                       \
	  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,"                               \
	  " ?18, ?19, ?20, ?21)")                                                                                              \
	X(CALL_AGAIN,                                                                                                          \
	  "UPDATE calls SET digest = ?1, state = ?2, code = ?3, fence = ?4, task = ?5,"                                        \
	  " grant_id = ?6, scope = ?7, object = ?8, amount = ?9, day = ?10, quota = ?11, node = "                              \
	  "?12,"                                                                                                               \
	  " approval = ?13, result = ?14, updated_ns = ?15, id = ?16 WHERE id = ?17 AND state = "                              \
	  "'failed'")                                                                                                          \
	X(CALL_STEP,                                                                                                           \
	  "UPDATE calls SET state = ?1, code = ?2, result = ?3, node = ?4, updated_ns = ?5"                                    \
	  " WHERE id = ?6 AND state = ?7")                                                                                     \
	X(CALLS_RUNNING,                                                                                                       \
	  "SELECT c.id FROM calls c WHERE c.node = ?1 AND c.state IN " RUNNING_STATES                                          \
	  " ORDER BY c.id LIMIT 256")                                                                                          \
	X(CALLS_PAGE, "SELECT MAX(id), COUNT(*) FROM"                                                                          \
		      " (SELECT id FROM calls WHERE id > ?1 ORDER BY id LIMIT 256) AS page")                                   \
	X(CALLS_EXPIRE, "DELETE FROM calls WHERE id > ?1 AND id <= ?2 AND state IN ('done', "                                  \
			"'failed', 'refused')"                                                                                 \
			" AND updated_ns < ?3")                                                                                \
	X(CALLS_LIST,                                                                                                          \
	  "SELECT " CALL_COLUMNS " FROM calls c WHERE (CAST(?1 AS BIGINT) = 0 OR c.id = ?2)"                                   \
	  " AND (?3 = '' OR c.ikey = ?4) AND (?5 = '' OR c.task = ?6)"                                                         \
	  " AND (?7 = '' OR c.tenant = ?8) AND (?9 = '' OR c.state = ?10)"                                                     \
	  " AND (CAST(?11 AS BIGINT) = 0 OR c.created_ns < (SELECT b.created_ns FROM calls b "                                 \
	  "WHERE b.id = ?12)"                                                                                                  \
	  " OR (c.created_ns = (SELECT b.created_ns FROM calls b WHERE b.id = ?13)"                                            \
	  " AND c.id < ?14)) ORDER BY c.created_ns DESC, c.id DESC LIMIT ?15")                                                 \
	X(IN_FLIGHT,                                                                                                           \
	  "SELECT CAST(COALESCE(SUM(c.amount), 0) AS BIGINT) FROM calls c WHERE c.tenant = ?1"                                 \
	  " AND c.tool = ?2 AND c.object = ?3 AND c.state IN " HOLDING_STATES)                                                 \
	X(USAGE_READ,                                                                                                          \
	  "SELECT used FROM usage WHERE tenant = ?1 AND tool = ?2 AND subject = ?3 AND day = ?4")                              \
	X(USAGE_WRITE,                                                                                                         \
	  "INSERT INTO usage (tenant, tool, subject, day, used) VALUES (?1, ?2, ?3, ?4, ?5)"                                   \
	  " ON CONFLICT (tenant, tool, subject, day) DO UPDATE SET used = excluded.used")                                      \
	X(USAGE_EXPIRE, "DELETE FROM usage WHERE day < ?1")                                                                    \
	X(APPROVAL_READ, "SELECT " APPROVAL_COLUMNS ", " CALL_COLUMNS                                                          \
			 " FROM approvals a JOIN calls c ON c.id = a.call_id WHERE a.id = ?1")                                 \
	X(APPROVAL_INSERT,                                                                                                     \
	  "INSERT INTO approvals (id, call_id, digest, state, decided_by, reason, created_ns,"                                 \
	  " expires_ns, decided_ns, request, params)"                                                                          \
	  " VALUES (?1, ?2, ?3, 'pending', '', '', ?4, ?5, 0, ?6, ?7)")                                                        \
	X(APPROVAL_DECIDE,                                                                                                     \
	  "UPDATE approvals SET state = ?1, decided_by = ?2, reason = ?3, decided_ns = ?4,"                                    \
	  " request = '', params = '' WHERE id = ?5 AND state = 'pending'")                                                    \
	X(APPROVALS_EXPIRED,                                                                                                   \
	  "SELECT a.id FROM approvals a WHERE a.state = 'pending' AND a.expires_ns <= ?1"                                      \
	  " ORDER BY a.expires_ns LIMIT 64")                                                                                   \
	X(APPROVALS_LIST,                                                                                                      \
	  "SELECT " APPROVAL_COLUMNS ", " CALL_COLUMNS                                                                         \
	  " FROM approvals a JOIN calls c ON c.id = a.call_id WHERE (?1 = '' OR a.id = ?2)"                                    \
	  " AND (?3 = 0 OR a.state = 'pending') AND (?4 = '' OR c.task = ?5)"                                                  \
	  " AND (?6 = '' OR c.tenant = ?7) ORDER BY a.created_ns DESC, a.id LIMIT ?8")                                         \
	X(GRANT_READ, "SELECT " GRANT_COLUMNS " FROM grants WHERE id = ?1")                                                    \
	X(GRANT_INSERT,                                                                                                        \
	  "INSERT INTO grants (" GRANT_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"                                 \
	  " ?10, ?11, ?12, 0, 0, 0) ON CONFLICT (id) DO NOTHING")                                                              \
	X(GRANT_RENEW,                                                                                                         \
	  "UPDATE grants SET expires_ns = ?1 WHERE id = ?2 AND fence = ?3 AND tenant = ?4"                                     \
	  " AND subject = ?5 AND task = ?6 AND scope = ?7 AND tool = ?8 AND object = ?9"                                       \
	  " AND amount_max = ?10 AND uses_max = ?11 AND revoked_ns = 0")                                                       \
	X(GRANT_COUNT, "UPDATE grants SET amount_used = ?1, uses_used = ?2 WHERE id = ?3")                                     \
	X(GRANT_REVOKE_ID, "UPDATE grants SET revoked_ns = ?1 WHERE revoked_ns = 0 AND id = ?2")                               \
	X(GRANT_REVOKE_TASK,                                                                                                   \
	  "UPDATE grants SET revoked_ns = ?1 WHERE revoked_ns = 0 AND task = ?2")                                              \
	X(GRANT_REVOKE_SUBJECT,                                                                                                \
	  "UPDATE grants SET revoked_ns = ?1 WHERE revoked_ns = 0 AND subject = ?2")                                           \
	X(GRANT_REVOKE_FENCE,                                                                                                  \
	  "UPDATE grants SET revoked_ns = ?1 WHERE revoked_ns = 0 AND fence = ?2")                                             \
	X(GRANTS_LIST, "SELECT " GRANT_COLUMNS                                                                                 \
		       " FROM grants WHERE (?1 = '' OR id = ?2) AND (?3 = '' OR task = ?4)"                                    \
		       " AND (?5 = '' OR tenant = ?6) ORDER BY issued_ns DESC, id LIMIT ?7")                                   \
	X(RECORD_INSERT, "INSERT INTO records (node, seq, time_ns, task, body, hash)"                                          \
			 " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                                                   \
	X(RECORD_READ,                                                                                                         \
	  "SELECT node, seq, time_ns, task, body, hash FROM records WHERE node = ?1 AND seq = ?2")                             \
	X(RECORDS_OF_TASK,                                                                                                     \
	  "SELECT node, seq, time_ns, task, body, hash FROM records WHERE task = ?1"                                           \
	  " ORDER BY time_ns, node, seq LIMIT ?2")                                                                             \
	X(RECORDS_ALL,                                                                                                         \
	  "SELECT node, seq, time_ns, task, body, hash FROM records ORDER BY time_ns, node, seq"                               \
	  " LIMIT ?1")                                                                                                         \
	X(RECORDS_CHAIN,                                                                                                       \
	  "SELECT node, seq, time_ns, task, body, hash FROM records ORDER BY node, seq")                                       \
	X(META_READ, "SELECT val FROM meta WHERE name = ?1")

/* Number 0 is an engine's own (postgres.c: the lock). Tools' statements come after SQL_N. */
enum ledger_sql {
	SQL_NONE,
#define X(id, text) SQL_##id,
	LEDGER_SQL(X)
#undef X
		SQL_N
};

extern const struct engine_stmt ledger_sql[SQL_N];

/* What the busiest of them are for many at once, on PostgreSQL. X(enum, text) */
#define LEDGER_SQL_MANY(X)                                                                         \
	X(CALL_BY_KEY,                                                                             \
	  "SELECT i.ord, " CALL_COLUMNS                                                            \
	  " FROM unnest(?1::text[], ?2::text[], ?3::text[], ?4::text[])"                           \
	  " WITH ORDINALITY AS i (tenant, subject, tool, ikey, ord) CROSS JOIN LATERAL"            \
	  " (SELECT * FROM calls x WHERE x.tenant = i.tenant AND x.subject = i.subject"            \
	  " AND x.tool = i.tool AND x.ikey = i.ikey OFFSET 0) c")                                  \
	X(CALL_BY_ID, "SELECT i.ord, " CALL_COLUMNS                                                \
		      " FROM unnest(?1::bigint[]) WITH ORDINALITY AS i (id, ord)"                  \
		      " CROSS JOIN LATERAL (SELECT * FROM calls x WHERE x.id = i.id OFFSET 0) c")  \
	X(IN_FLIGHT,                                                                               \
	  "SELECT i.ord, (SELECT CAST(COALESCE(SUM(c.amount), 0) AS BIGINT) FROM calls c"          \
	  " WHERE c.tenant = i.tenant AND c.tool = i.tool AND c.object = i.object"                 \
	  " AND c.state IN " HOLDING_STATES ") FROM unnest(?1::text[], ?2::text[], ?3::text[])"    \
	  " WITH ORDINALITY AS i (tenant, tool, object, ord)")                                     \
	X(CALL_INSERT,                                                                             \
	  "INSERT INTO calls (id, tenant, subject, tool, ikey, digest, state, code, fence, task,"  \
	  " grant_id, scope, object, amount, day, quota, node, approval, result, created_ns,"      \
	  " updated_ns) SELECT * FROM unnest(?1::bigint[], ?2::text[], ?3::text[], ?4::text[],"    \
	  " ?5::text[], ?6::text[], ?7::text[], ?8::text[], ?9::bigint[], ?10::text[],"            \
	  " ?11::text[], ?12::text[], ?13::text[], ?14::bigint[], ?15::bigint[], ?16::text[],"     \
	  " ?17::text[], ?18::text[], ?19::text[], ?20::bigint[], ?21::bigint[])")                 \
	X(CALL_STEP,                                                                               \
	  "UPDATE calls c SET state = i.state, code = i.code, result = i.result, node = i.node,"   \
	  " updated_ns = i.updated_ns FROM unnest(?1::text[], ?2::text[], ?3::text[], ?4::text[]," \
	  " ?5::bigint[], ?6::bigint[], ?7::text[]) WITH ORDINALITY AS i (state, code, result, "   \
	  "node,"                                                                                  \
	  " updated_ns, id, old, ord) WHERE c.id = i.id AND c.state = i.old RETURNING i.ord")      \
	X(RECORD_INSERT,                                                                           \
	  "INSERT INTO records (node, seq, time_ns, task, body, hash) SELECT * FROM"               \
	  " unnest(?1::text[], ?2::bigint[], ?3::bigint[], ?4::text[], ?5::text[], ?6::text[])")

/* Creates or migrates the tables, in the transaction that is open. -EPROTO: made by a newer program. */
int schema_prepare(const struct engine_ops *ops, struct engine *engine, struct error *error);

#endif
