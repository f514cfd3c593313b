/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of cordon-gateway: rows, from which help and man page come too. */
#ifndef CORDON_GATEWAY_OPTIONS_H
#define CORDON_GATEWAY_OPTIONS_H

#include <stdbool.h>

struct options {
	const char *config;
	bool check;
};

/*
 * Parses argv. Returns -1 to go on, or the exit code when all is said: help, version, man page, or a fault
 * (printed).
 */
int options_parse(int argc, char **argv, struct options *ret_options);

#endif
