// SPDX-License-Identifier: Apache-2.0
/*
 * A configuration with all of its tools, judged together, and what kind of file a text is. Reads files,
 * nothing else. Every file is looked at, whatever is wrong with others; one fault anywhere and there is
 * no configuration.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>

#include "conf/file.h"
#include "gwconf/gwconf.h"

void gwconf_reports_free(struct gwconf_reports *reports)
{
	for (size_t i = 0; i < reports->n; i++) {
		free(reports->v[i].path);
		conf_faults_clear(&reports->v[i].faults);
	}
	free(reports->v);
	memset(reports, 0, sizeof(*reports));
}

void gwconf_reports_print(const struct gwconf_reports *reports, FILE *out)
{
	for (size_t i = 0; i < reports->n; i++) {
		const struct gwconf_report *report = &reports->v[i];

		if (report->faults.n)
			conf_faults_print(&report->faults, report->path, out);
		else if (report->r < 0)
			fprintf(out, "%s: %s\n", report->path, strerror(-report->r));
	}
}

/* A new report; NULL when memory ends. */
static struct gwconf_report *reports_add(struct gwconf_reports *reports, const char *path)
{
	struct gwconf_report *grown = realloc(reports->v, (reports->n + 1) * sizeof(*reports->v));

	if (!grown)
		return NULL;
	reports->v = grown;
	grown += reports->n;
	memset(grown, 0, sizeof(*grown));
	grown->path = strdup(path);
	if (!grown->path)
		return NULL;
	reports->n++;
	return grown;
}

/* "dir/of/config" + "tools/refund.yaml". */
static char *path_beside(const char *base, const char *path)
{
	const char *slash = strrchr(base, '/');
	char *out;

	if (path[0] == '/' || !slash)
		return strdup(path);
	return asprintf(&out, "%.*s/%s", (int)(slash - base), base, path) < 0 ? NULL : out;
}

static int load_tool(struct gwconf *conf, size_t i, struct gwconf_reports *reports)
{
	_cleanup_free_ char *path = path_beside(conf->path, conf->tool_files.v[i]);
	struct gwconf_report *report = path ? reports_add(reports, path) : NULL;
	struct gwconf_tool *tool = NULL;

	if (!report)
		return -ENOMEM;
	report->r = gwconf_tool_load(path, &tool, &report->faults);
	if (report->r == 0) {
		conf->tool_marks[conf->n_tools] = conf->tool_files.mark[i];
		conf->tools[conf->n_tools++] = tool;
	}
	return report->r == -ENOMEM ? -ENOMEM : 0;
}

#define fault(report, mark, ...)                                              \
	do {                                                                  \
		if (conf_fault_add(&(report)->faults, mark, __VA_ARGS__) < 0) \
			return -ENOMEM;                                       \
		(report)->r = -EINVAL;                                        \
	} while (0)

static const char *route_in_both(const struct gwconf_tool *a, const struct gwconf_tool *b)
{
	for (size_t i = 0; i < a->routes.n; i++)
		for (size_t k = 0; k < b->routes.n; k++)
			if (!strcmp(a->routes.v[i], b->routes.v[k]))
				return a->routes.v[i];
	return NULL;
}

/* The faults that only show when the tools are seen beside one another. */
static int judge_tools(const struct gwconf *conf, struct gwconf_report *report)
{
	for (size_t i = 0; i < conf->n_tools; i++) {
		const struct gwconf_tool *tool = conf->tools[i];
		struct conf_mark at = conf->tool_marks[i];

		if (tool->executor == GWCONF_EXEC_HTTP && tool->upstream &&
		    !gwconf_find_upstream(conf, tool->upstream))
			fault(report, at, "upstreams: `%s` is missing; %s names it", tool->upstream,
			      tool->path);
		if (tool->executor == GWCONF_EXEC_SQL && conf->facts.url &&
		    strcmp(conf->facts.url, conf->store.url) != 0)
			fault(report, at,
			      "facts: %s acts by SQL, in the transaction of the ledger: facts must "
			      "be "
			      "the store",
			      tool->path);
		for (size_t k = 0; k < i; k++) {
			const char *route = route_in_both(tool, conf->tools[k]);

			if (!strcmp(tool->name, conf->tools[k]->name))
				fault(report, at, "tools: %s and %s are both called `%s`",
				      conf->tools[k]->path, tool->path, tool->name);
			if (route)
				fault(report, at, "tools: %s and %s both have the route %s",
				      conf->tools[k]->path, tool->path, route);
		}
	}
	return 0;
}

static int reports_judge(const struct gwconf_reports *reports)
{
	for (size_t i = 0; i < reports->n; i++)
		if (reports->v[i].r < 0)
			return -EINVAL;
	return 0;
}

int gwconf_load(const char *path, struct gwconf **ret_conf, struct gwconf_reports *reports)
{
	_cleanup_free_ char *text = NULL;
	struct gwconf_report *report = reports_add(reports, path);
	struct gwconf *conf = NULL;
	size_t length;
	int r;

	if (!report)
		return -ENOMEM;
	report->r = conf_file_read(path, &text, &length);
	if (report->r == 0)
		report->r = gwconf_parse_whole(text, length, path, &conf, &report->faults);
	r = report->r == -ENOMEM ? -ENOMEM : 0;
	for (size_t i = 0; r == 0 && conf && i < conf->tool_files.n; i++)
		r = load_tool(conf, i, reports);
	if (r == 0 && conf)
		r = judge_tools(conf, &reports->v[0]);
	if (r == 0)
		r = reports_judge(reports);
	if (r < 0)
		gwconf_free(conf);
	else
		*ret_conf = conf;
	return r;
}

enum gwconf_kind gwconf_kind_of(const char *text, size_t length)
{
	static const char *const tool[] = { "route",	"scope",  "input",	"object",
					    "executor", "tenant", "idempotency" };
	static const char *const config[] = { "listen", "tools", "store", "upstreams", "admin" };
	enum gwconf_kind kind = GWCONF_KIND_POLICY;
	struct conf_faults faults = { .n = 0 };
	struct conf_node *root = NULL;
	bool complete;

	if (conf_node_read(text, length, &faults, &root, &complete) == 0 && root) {
		for (size_t i = 0; i < ARRAY_SIZE(config); i++)
			if (conf_node_get(root, config[i], NULL))
				kind = GWCONF_KIND_CONFIG;
		for (size_t i = 0; i < ARRAY_SIZE(tool); i++)
			if (conf_node_get(root, tool[i], NULL))
				kind = GWCONF_KIND_TOOL;
	}
	conf_node_free(root);
	conf_faults_clear(&faults);
	return kind;
}
