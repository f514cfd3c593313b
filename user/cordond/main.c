// SPDX-License-Identifier: Apache-2.0
/*
 * cordond: one program, two processes (ARCHITECTURE.md, "cordond"). This file is the command line and nothing else.
 */
#include "cordond/cordond.h"

#include <signal.h>

#include "conf/program.h"
#include "cordond/protocol.h"
#include "event/frame.h"

static const struct conf_program_option rows[] = {
	{ "config", "FILE",
	  "the configuration (YAML); default " CORDOND_CONFIG ", which may be missing",
	  offsetof(struct cordond_options, config), false },
	{ "socket", "PATH", "the control socket; default " CORDOND_SOCKET,
	  offsetof(struct cordond_options, socket), false },
	{ "gateway-socket", "PATH",
	  "where gateways write their events; default " EVENT_FRAME_SOCKET,
	  offsetof(struct cordond_options, events), false },
	{ "user", "USER", "whom the part without privilege runs as; default " CORDOND_USER,
	  offsetof(struct cordond_options, user), false },
	{ "foreground", NULL, "stay in the foreground: the only way there is",
	  offsetof(struct cordond_options, foreground), false },
	{ "degraded", NULL, "enforce the network part alone where the rest cannot be",
	  offsetof(struct cordond_options, degraded), false },
	{ "check", NULL, "say what is wrong with the configuration, and do nothing else",
	  offsetof(struct cordond_options, check), false },
};

static const char *const paragraphs[] = {
	"Keeps fences around cgroups and containers that run, for as long as they do, and gives "
	"their events to those who follow them. `cordon attach`, `detach`, `reload`, `list` and "
	"`events -f` speak with it by its control socket; who may operate is root and the group "
	"cordon-operators, who may only read the group cordon-readers.",
	"What is enforced lies in the kernel and needs no process. However cordond ends, fences "
	"stay; the next one takes them over, with their ids, and numbers go on. What was lost "
	"meanwhile is counted and said in a gap record.",
	"Two processes: the keeper, as root, holds fences and reads no text that others wrote; "
	"the front, as a user of its own and without any capability, has the control socket, "
	"policies, events, sinks, alerts and metrics. If the front dies, the keeper starts "
	"another.",
	"SIGHUP has the configuration read anew; with a fault the old one stays. SIGTERM ends "
	"cordond and leaves every fence enforced.",
};

static const struct conf_program_code codes[] = {
	{ EXIT_OK, "ended on a signal, or the check found nothing" },
	{ EXIT_FOUND, "failed" },
	{ EXIT_USAGE, "wrong usage" },
	{ EXIT_POLICY, "the configuration is invalid" },
	{ EXIT_HOST, "this host cannot enforce" },
	{ EXIT_PERMISSION, "not root" },
};

static const struct conf_program program = {
	.name = "cordond",
	.summary = "keep fences around what runs, and tell of them",
	.synopsis = "[--config FILE] [--check]",
	.see_also = ".BR cordon (1), cordon-gateway (8)",
	.options = rows,
	.n_options = ARRAY_SIZE(rows),
	.paragraphs = paragraphs,
	.n_paragraphs = ARRAY_SIZE(paragraphs),
	.codes = codes,
	.n_codes = ARRAY_SIZE(codes),
};

int cordond_options_parse(int argc, char **argv, struct cordond_options *ret_options)
{
	int code;

	*ret_options = (struct cordond_options){ .config = NULL };
	code = conf_program_parse(&program, argc, argv, ret_options);
	if (!ret_options->socket)
		ret_options->socket = CORDOND_SOCKET;
	if (!ret_options->events)
		ret_options->events = EVENT_FRAME_SOCKET;
	if (!ret_options->user)
		ret_options->user = CORDOND_USER;
	return code;
}

int main(int argc, char **argv)
{
	struct cordond_options options;
	int code;

	signal(SIGCHLD,
	       SIG_DFL); /* who started us may ignore it, and then no child's status would be told */
	if (argc == 2 && !strcmp(argv[1], CORDOND_FRONT_WORD))
		return front_main();
	code = cordond_options_parse(argc, argv, &options);
	if (code >= 0)
		return code;
	if (options.check)
		return front_check(options.config ? options.config : CORDOND_CONFIG);
	return keeper_main(&options);
}
