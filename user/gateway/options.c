// SPDX-License-Identifier: Apache-2.0
/* See options.h. */
#include "gateway/options.h"

#include "conf/program.h"
#include "util/util.h"

static const struct conf_program_option rows[] = {
	{ "config", "FILE", "the configuration (YAML)", offsetof(struct options, config), true },
	{ "check", NULL,
	  "say what is wrong with the configuration, its tools and their credentials, "
	  "and do nothing else",
	  offsetof(struct options, check), false },
};

static const char *const paragraphs[] = {
	"Judges and executes what agents ask for: HTTP/1.1 over TCP and unix sockets, tools "
	"declared in YAML. Who "
	"calls is known by the kernel: a connection belongs to the fence that made it, and all "
	"others get 401. The "
	"gateway holds the credentials; run it as a user of its own, without capabilities.",
	"SIGHUP loads the configuration anew: it is checked as a whole before the switch, and "
	"requests under way end "
	"with the old one. What the running process cannot change (store, facts, node, anchor, "
	"admin, events, "
	"workers, executors, keep, approvals) needs a restart and is refused. SIGTERM and SIGINT "
	"drain: no new "
	"connections, requests under way are answered, for at most limits.drain.",
};

static const struct conf_program_code codes[] = {
	{ EXIT_OK, "ended on a signal after draining, or the check found nothing" },
	{ EXIT_FOUND, "failed: the store, an address, a file" },
	{ EXIT_USAGE, "wrong usage" },
	{ EXIT_POLICY, "the configuration or a tool is invalid" },
};

static const struct conf_program program = {
	.name = "cordon-gateway",
	.summary = "judge and execute what fenced agents ask for",
	.synopsis = "--config FILE [--check]",
	.see_also = ".BR cordon (1), cordond (8)",
	.options = rows,
	.n_options = ARRAY_SIZE(rows),
	.paragraphs = paragraphs,
	.n_paragraphs = ARRAY_SIZE(paragraphs),
	.codes = codes,
	.n_codes = ARRAY_SIZE(codes),
};

int options_parse(int argc, char **argv, struct options *ret_options)
{
	*ret_options = (struct options){ .config = NULL };
	return conf_program_parse(&program, argc, argv, ret_options);
}
