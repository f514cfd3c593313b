// SPDX-License-Identifier: Apache-2.0
/* See refusal.h. No state, no privilege; when memory ends the reason is missing, never the code. */
#include "gateway/refusal.h"

#include <stdio.h>
#include <stdlib.h>

#include "admin/report.h"
#include "util/util.h"

static const char *rule_of(enum ledger_code code)
{
	return event_rule_name(report_rule(code));
}

static char *quoted(const char *text)
{
	json_t *string = text ? json_string(text) : NULL;
	char *out = string ? json_dumps(string, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;

	json_decref(string);
	return out;
}

static int print(char *buffer, enum ledger_code code, const char *reason)
{
	const struct ledger_code_info *info = ledger_code_info(code);
	_cleanup_free_ char *text = quoted(reason), *ask = quoted(info->ask);

	return snprintf(buffer, REFUSAL_MAX,
			"{\"error\":\"%s\",\"reason\":%s,\"rule\":\"%s\",\"retry\":\"%s\","
			"\"ask\":%s}\n",
			info->name, text ? text : "\"\"", rule_of(code), info->retry,
			ask ? ask : "null");
}

int refusal_print(char *buffer, enum ledger_code code, const char *reason)
{
	const char *own = ledger_code_info(code)->text;
	int n = print(buffer, code, reason && reason[0] ? reason : own);

	return n < REFUSAL_MAX ? n : print(buffer, code, own);
}

json_t *refusal_json(enum ledger_code code, const char *reason)
{
	const struct ledger_code_info *info = ledger_code_info(code);

	return json_pack("{s:s,s:s,s:s,s:s,s:s?}", "error", info->name, "reason",
			 reason && reason[0] ? reason : info->text, "rule", rule_of(code), "retry",
			 info->retry, "ask", info->ask);
}

enum ledger_code refusal_of_status(int status)
{
	static const enum ledger_code codes[] = {
		LEDGER_NOT_FOUND,	   LEDGER_METHOD_NOT_ALLOWED, LEDGER_NOT_ACCEPTABLE,
		LEDGER_REQUEST_TIMEOUT,	   LEDGER_LENGTH_REQUIRED,    LEDGER_BODY_TOO_LARGE,
		LEDGER_EXPECTATION_FAILED, LEDGER_HEADERS_TOO_LARGE,  LEDGER_VERSION_NOT_SUPPORTED,
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (ledger_code_info(codes[i])->http_status == status)
			return codes[i];
	return LEDGER_MALFORMED_REQUEST;
}
