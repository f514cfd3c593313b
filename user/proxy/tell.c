// SPDX-License-Identifier: Apache-2.0
/* See tell.h. A file of its own, for libevent and the event library both have a struct event. */
#include "proxy/tell.h"

#include <arpa/inet.h>

#include "admin/report.h"

static void address_text(const struct cordon_addr *addr, uint16_t port, char *text, size_t size)
{
	char name[INET6_ADDRSTRLEN];

	inet_ntop(addr->v6 ? AF_INET6 : AF_INET, addr->v6 ? addr->b : addr->b + 12, name,
		  sizeof(name));
	snprintf(text, size, addr->v6 ? "[%s]:%u" : "%s:%u", name, port);
}

void tell_write(struct report *report, bool ended, const struct tell *tell)
{
	char object[REACH_NAME_MAX + 8], address[INET6_ADDRSTRLEN + 10];
	struct report_row row = {
		.op = ended ? CORDON_OP_REACHED : CORDON_OP_REACH,
		.code = tell->code,
		.caller = tell->caller,
		.reason = tell->reason,
		.gateway = { .action = tell->action,
			     .has_bytes = ended,
			     .up_bytes = (int64_t)tell->up_bytes,
			     .down_bytes = (int64_t)tell->down_bytes,
			     .upstream_status = -1,
			     .latency_us = tell->latency_us },
	};

	if (tell->target->name.n) {
		snprintf(object, sizeof(object), "%s:%u", tell->target->name.s, tell->target->port);
		row.gateway.object = object;
	}
	if (tell->addr) {
		address_text(tell->addr, tell->target->port, address, sizeof(address));
		row.gateway.address = address;
	}
	report_write(report, &row);
}

bool tell_ready(struct report *report)
{
	return report_ready(report) == 0;
}
