// SPDX-License-Identifier: Apache-2.0
/*
 * The command `cordon`. The verbs are in verbs.c, the machinery in cli.c. Starts with the privilege
 * of its caller.
 */
#include <signal.h>

#include "cordon/cli.h"

int main(int argc, char **argv)
{
	signal(SIGCHLD,
	       SIG_DFL); /* who started us may ignore it, and then no child's status would be told */
	return cli_main(argc, argv);
}
