// SPDX-License-Identifier: Apache-2.0
/*
 * The table of verbs of the command `cordon`, in the order of the help. A verb lives in cmd_NAME.c,
 * which also says what privilege it needs; main() is apart, so that tests can be linked with this
 * table.
 */
#include "cordon/cli.h"

extern const struct cli_verb cli_verb_run;
extern const struct cli_verb cli_verb_attach;
extern const struct cli_verb cli_verb_detach;
extern const struct cli_verb cli_verb_reload;
extern const struct cli_verb cli_verb_list;
extern const struct cli_verb cli_verb_top;
extern const struct cli_verb cli_verb_events;
extern const struct cli_verb cli_verb_timeline;
extern const struct cli_verb cli_verb_audit;
extern const struct cli_verb cli_verb_check;
extern const struct cli_verb cli_verb_suggest;
extern const struct cli_verb cli_verb_verify;
extern const struct cli_verb cli_verb_doctor;
extern const struct cli_verb cli_verb_oci_hook;
extern const struct cli_verb cli_verb_oci_runtime;
extern const struct cli_verb cli_verb_load;
extern const struct cli_verb cli_verb_unload;
extern const struct cli_verb cli_verb_approvals;
extern const struct cli_verb cli_verb_grants;
extern const struct cli_verb cli_verb_ledger;

const struct cli_verb *const cli_verbs[] = {
	&cli_verb_run,	  &cli_verb_attach,   &cli_verb_detach,
	&cli_verb_reload, &cli_verb_list,     &cli_verb_top,
	&cli_verb_events, &cli_verb_timeline, &cli_verb_audit,
	&cli_verb_check,  &cli_verb_suggest,  &cli_verb_verify,
	&cli_verb_doctor, &cli_verb_oci_hook, &cli_verb_oci_runtime,
	&cli_verb_load,	  &cli_verb_unload,   &cli_verb_approvals,
	&cli_verb_grants, &cli_verb_ledger,   NULL,
};
