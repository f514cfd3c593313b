// SPDX-License-Identifier: Apache-2.0
/* See report.h. What a caller sent is text of theirs: bounded and escaped by the event writer. */
#include "admin/report.h"

#include <stdatomic.h>
#include <string.h>

#include "event/frame.h"
#include "ledger/ledger.h"

struct report {
	struct record *record;
	char node[IDENTITY_NODE_MAX + 1];
	atomic_ullong seq;
	atomic_ullong told; /* of dropped events */
};

struct report *report_new(struct record *record, const char *node)
{
	struct report *report = calloc(1, sizeof(*report));

	if (report) {
		report->record = record;
		snprintf(report->node, sizeof(report->node), "%s", node);
	}
	return report;
}

void report_free(struct report *report)
{
	free(report);
}

enum cordon_rule report_rule(enum ledger_code code)
{
	switch (code) {
	case LEDGER_OK:
	case LEDGER_DUPLICATE:
	case LEDGER_EXECUTE:
		return CORDON_RULE_GW_OK;
	case LEDGER_UNAUTHENTICATED:
		return CORDON_RULE_GW_IDENTITY;
	case LEDGER_TENANT_MISMATCH:
	case LEDGER_OBJECT_NOT_IN_TENANT:
		return CORDON_RULE_GW_TENANT;
	case LEDGER_SCOPE_DENIED:
		return CORDON_RULE_GW_SCOPE;
	case LEDGER_GRANT_UNKNOWN:
	case LEDGER_GRANT_DENIED:
	case LEDGER_GRANT_EXPIRED:
	case LEDGER_GRANT_EXHAUSTED:
	case LEDGER_GRANT_REVOKED:
		return CORDON_RULE_GW_GRANT;
	case LEDGER_DOMAIN_DENIED:
	case LEDGER_LABEL_DENIED:
	case LEDGER_QUERY_DENIED:
	case LEDGER_PORT_DENIED:
	case LEDGER_HOST_MISMATCH:
		return CORDON_RULE_GW_DOMAIN;
	case LEDGER_ADDRESS_DENIED:
		return CORDON_RULE_GW_ADDRESS;
	case LEDGER_UPLOAD_EXHAUSTED:
		return CORDON_RULE_GW_UPLOAD;
	case LEDGER_PLACEHOLDER_SEEN:
		return CORDON_RULE_GW_CANARY;
	case LEDGER_OBJECT_NOT_FOUND:
		return CORDON_RULE_GW_OBJECT;
	case LEDGER_AMOUNT_OUT_OF_RANGE:
	case LEDGER_AMOUNT_OVERFLOW:
		return CORDON_RULE_GW_AMOUNT;
	case LEDGER_CREDENTIAL_EXHAUSTED:
	case LEDGER_QUOTA_SINGLE:
	case LEDGER_QUOTA_DAILY:
	case LEDGER_RATE_LIMITED:
	case LEDGER_TUNNELS_EXHAUSTED:
	case LEDGER_NAMES_EXHAUSTED:
		return CORDON_RULE_GW_QUOTA;
	case LEDGER_PENDING_APPROVAL:
	case LEDGER_APPROVAL_DENIED:
	case LEDGER_APPROVAL_EXPIRED:
	case LEDGER_APPROVAL_NOT_FOUND:
	case LEDGER_APPROVAL_NOT_PENDING:
	case LEDGER_APPROVER_IS_CALLER:
		return CORDON_RULE_GW_APPROVAL;
	case LEDGER_KEY_IN_FLIGHT:
	case LEDGER_KEY_USED:
	case LEDGER_KEY_REUSED_WITH_OTHER_BODY:
	case LEDGER_OUTCOME_AMBIGUOUS:
		return CORDON_RULE_GW_KEY;
	case LEDGER_NAME_NOT_RESOLVED:
	case LEDGER_UPSTREAM_UNREACHABLE:
	case LEDGER_EXECUTION_REFUSED:
	case LEDGER_EXECUTION_FAILED:
		return CORDON_RULE_GW_EXECUTION;
	case LEDGER_UNAVAILABLE:
	case LEDGER_COMMIT_UNKNOWN:
	case LEDGER_OVERLOADED:
		return CORDON_RULE_GW_STATE;
	default:
		return CORDON_RULE_GW_REQUEST;
	}
}

int report_ready(struct report *report)
{
	return record_ready(report->record);
}

static const char *said(const char *text)
{
	return text && *text ? text : NULL;
}

static void context_fill(const struct report *report, const struct report_row *row,
			 struct event_context *ret)
{
	const struct identity *id = row->caller;

	*ret = (struct event_context){
		.node = report->node,
		.task = said(id ? id->task : row->task),
		.tenant = said(id ? id->tenant : row->tenant),
		.subject = said(id ? id->subject : row->subject),
	};
	if (id) {
		ret->fence_name = said(id->fence_name);
		ret->policy = said(id->policy);
		ret->container = said(id->container);
	}
}

static int event_out(struct report *report, const struct event_context *context,
		     const struct event *event)
{
	static _Thread_local char line[EVENT_LINE_MAX];
	size_t n = record_takes_frames(report->record) ? event_frame_encode(line, context, event)
						       : event_format_json(line, context, event);

	return record_write(report->record, line, n);
}

/* What was dropped while nothing could be written is said as soon as something can. */
static void dropped_tell(struct report *report, struct event *event)
{
	const struct event_context context = { .node = report->node };
	unsigned long long all = record_dropped(report->record), told = report->told;
	struct event_gap gap = { .first = 0 };

	if (all == told || !atomic_compare_exchange_strong(&report->told, &told, all))
		return;
	gap.count = all - told > UINT32_MAX ? UINT32_MAX : (uint32_t)(all - told);
	snprintf(gap.detail, sizeof(gap.detail),
		 "the gateway dropped %u events, which nobody took for too long", gap.count);
	event_make_gap(event, NULL, NULL, ++report->seq, &gap);
	event_out(report, &context, event);
}

int report_write(struct report *report, const struct report_row *row)
{
	static _Thread_local struct event event;
	enum cordon_rule rule = report_rule(row->code);
	char reason[EVENT_TEXT_MAX + 1], hash[2 * LEDGER_HASH_SIZE + 1];
	struct event_gateway gateway = row->gateway;
	struct event_context context;
	int err;

	snprintf(reason, sizeof(reason), "%s%s%s", ledger_code_info(row->code)->name,
		 said(row->reason) ? ": " : "", row->reason ? row->reason : "");
	gateway.reason = reason;
	gateway.status = row->op == CORDON_OP_CALL || row->op == CORDON_OP_REACH
				 ? ledger_code_info(row->code)->http_status
				 : -1;
	gateway.record = row->record_seq;
	if (row->record_seq && row->record_hash) {
		util_hex(row->record_hash, LEDGER_HASH_SIZE, hash);
		gateway.record_hash = hash;
	}
	event_make(&event, row->op, NULL, NULL, ++report->seq, NULL);
	event.raw.rule = (__u8)rule;
	event.raw.verdict = rule == CORDON_RULE_GW_OK ? CORDON_VERDICT_ALLOW : CORDON_VERDICT_DENY;
	event.raw.count = row->count;
	event.raw.fence_id = row->caller ? row->caller->fence_id : row->fence_id;
	if (row->caller) {
		event.raw.generation = (__u32)row->caller->generation;
		event.raw.mode = (__u8)row->caller->mode;
	}
	event.gateway = &gateway;
	context_fill(report, row, &context);
	err = event_out(report, &context, &event);
	event.gateway = NULL; /* it outlives this call */
	if (!err)
		dropped_tell(report, &event);
	return err;
}
