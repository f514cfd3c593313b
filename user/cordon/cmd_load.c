// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon load` and `cordon unload`: the programs of this host ahead of the first fence, and away again. Root. Nothing
 * is fenced by either, and no fence is opened.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cordon/setup.h"

struct load_options {
	bool degraded;
	unsigned int fences;
};

static const struct cli_option load_option_rows[] = {
	{ 0, "degraded", CLI_FLAG, offsetof(struct load_options, degraded), NULL,
	  "load the network part alone where the rest cannot be enforced", 0, 0, NULL },
	{ 0, "fences", CLI_UINT, offsetof(struct load_options, fences), "N",
	  "make room for so many fences at a time, one of which a self-test needs; without it "
	  "there is room for 1,024",
	  2, CORDON_FENCES_MAX, NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static const struct cli_option unload_option_rows[] = {
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static int load_fail(int err, const struct error *error)
{
	return cli_fail(err == -ENOTSUP ? EXIT_HOST
			: err == -EPERM ? EXIT_PERMISSION
					: EXIT_FOUND,
			"%s", error->text);
}

static int cmd_load(const void *options_, int argc, char **argv)
{
	const struct load_options *options = options_;
	struct host_report report;
	struct error error = { "" };
	bool degraded;
	int err;

	(void)argc, (void)argv;
	err = setup_host(&report, options->degraded, &degraded, &error);
	if (!err)
		err = enforce_keep(&report, degraded, options->fences, &error);
	return err ? load_fail(err, &error) : EXIT_OK;
}

static int cmd_unload(const void *options, int argc, char **argv)
{
	struct error error = { "" };
	unsigned int alive = 0;
	int err;

	(void)options, (void)argc, (void)argv;
	if (geteuid())
		return cli_fail(EXIT_PERMISSION, "must be root: it takes CAP_BPF; use sudo");
	err = enforce_unload(&alive, &error);
	if (err)
		return load_fail(err, &error);
	if (alive)
		printf("%u fence(s) live; the programs go with the last of them\n", alive);
	return EXIT_OK;
}

const struct cli_verb cli_verb_load = {
	.name = "load",
	.summary = "load the programs of this host ahead of its first fence, and keep them",
	.arguments = "",
	.text = "Most of the time that the first cordon run takes, the kernel's verifier does: it "
		"reads every program "
		"before it is attached. After load, fences begin in some milliseconds, and the "
		"programs stay when "
		"the last fence ends, until unload or the next boot. At boot, the unit "
		"cordon-load.service does this.\n"
		"\n"
		"Nothing is fenced by it: processes outside fences leave each program after one "
		"test. Each fence "
		"proves by its own self-test that what was loaded is in effect. What this build "
		"loaded already is kept as it is; another build's is replaced, while fences live "
		"too: "
		"the new programs are attached and proved beside the old ones, which go on if that "
		"fails. "
		"--fences with another number than it has room for replaces it, if no fence lives. "
		"Exits with 4 where "
		"this host cannot enforce.",
	.options = load_option_rows,
	.options_size = sizeof(struct load_options),
	.min_args = 0,
	.max_args = 0,
	.run = cmd_load,
};

const struct cli_verb cli_verb_unload = {
	.name = "unload",
	.summary = "undo load: drop the programs, now or with the last fence",
	.arguments = "",
	.text = "Fences that live keep their programs, and the last of them drops these when it "
		"ends; how many "
		"there are is said. Where nothing is loaded, nothing happens.",
	.options = unload_option_rows,
	.options_size = 1,
	.min_args = 0,
	.max_args = 0,
	.run = cmd_unload,
};
