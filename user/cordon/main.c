// SPDX-License-Identifier: Apache-2.0
/*
 * The command `cordon`. The verbs are in verbs.c, the machinery in cli.c. Starts with the privilege
 * of its caller.
 */
#include "cordon/cli.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
