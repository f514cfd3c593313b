// SPDX-License-Identifier: Apache-2.0
/*
 * The command `cordon`: its table of verbs. Starts with whatever privilege the caller has; which verb needs which is
 * said in that verb's file. Nothing here can fail but for want of a verb, which is a usage error.
 */
#include "cordon/cli.h"

extern const struct cli_verb cli_verb_run;
extern const struct cli_verb cli_verb_attach;
extern const struct cli_verb cli_verb_events;
extern const struct cli_verb cli_verb_check;
extern const struct cli_verb cli_verb_doctor;

const struct cli_verb *const cli_verbs[] = {
	&cli_verb_run,	  &cli_verb_attach, &cli_verb_events, &cli_verb_check,
	&cli_verb_doctor, NULL,
};

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
