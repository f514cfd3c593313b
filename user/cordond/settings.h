/* SPDX-License-Identifier: Apache-2.0 */
/* cordond's configuration: YAML text to a struct. Read by the front; no privilege. */
#ifndef CORDON_CORDOND_SETTINGS_H
#define CORDON_CORDOND_SETTINGS_H

#include "conf/read.h"
#include "sink/sink.h"

#define SETTINGS_FOLLOWERS_MAX 64
#define SETTINGS_CONNECTIONS_MAX 256
#define SETTINGS_HISTORY_MAX (1024LL * 1024 * 1024)
#define SETTINGS_COLD_START_MAX_MS 3600000
#define SETTINGS_ALERT_DENIALS_MAX 1000000000
#define SETTINGS_ALERT_MAX_MS 86400000

struct settings {
	char *operators, *readers; /* groups */
	char *gateway;		   /* the user whose gateways may write events */
	long long followers, connections;
	long long event_rate; /* of fences whose maker says none */
	struct sinks_config sinks;
	long long history; /* bytes of events that are kept for those who come later or are slow */
	char *metrics;	   /* the address of the endpoint; NULL: none */
	long long cold_start_ms;
	/* user/alert; 0 denials or calls: none */
	long long alert_denials, alert_window_ms, alert_quiet_ms;
	long long alert_calls, alert_calls_window_ms;
};

/*
 * Reads text[0..length). 0 and *ret_settings (clear it), -EINVAL with faults filled, -ENOMEM. faults must be zeroed; clear it in
 * every case.
 */
int settings_read(const char *text, size_t length, struct settings *ret_settings,
		  struct conf_faults *faults);
void settings_clear(struct settings *settings); /* takes a zeroed one */

/* docs/cordond.md. */
void settings_print_doc(FILE *out);

#endif
