// SPDX-License-Identifier: Apache-2.0
/* See tell.h. A file of its own, for libevent and the event library both have a struct event. */
#include "resolver/tell.h"

#include <arpa/inet.h>

#include "admin/report.h"
#include "resolver/message.h"

static void type_text(uint16_t type, char *text, size_t size)
{
	if (type == MESSAGE_A)
		snprintf(text, size, "A");
	else if (type == MESSAGE_AAAA)
		snprintf(text, size, "AAAA");
	else if (type == MESSAGE_CNAME)
		snprintf(text, size, "CNAME");
	else
		snprintf(text, size, "TYPE%u", type);
}

void resolver_tell_write(struct report *report, const struct resolver_tell *tell)
{
	char type[16], address[INET6_ADDRSTRLEN];
	struct report_row row = {
		.op = CORDON_OP_RESOLVE,
		.code = tell->code,
		.caller = tell->caller,
		.reason = tell->reason,
		.count = tell->count,
		.gateway = { .action = type,
			     .object = tell->name ? tell->name->s : NULL,
			     .upstream_status = -1,
			     .latency_us = -1 },
	};

	type_text(tell->type, type, sizeof(type));
	if (tell->addr) {
		inet_ntop(tell->addr->v6 ? AF_INET6 : AF_INET,
			  tell->addr->b + (tell->addr->v6 ? 0 : 12), address, sizeof(address));
		row.gateway.address = address;
	}
	report_write(report, &row);
}

bool resolver_tell_ready(struct report *report)
{
	return report_ready(report) == 0;
}
