// SPDX-License-Identifier: Apache-2.0
/*
 * The registry: an array of numbers for each metric, changed by atomic operations, and its texts. Values of labels that are known only
 * at run time are in tables, one a label, that only grow by metrics_label() and are read by the writer of the text under the same lock.
 * No privilege, nothing can fail.
 */
#include "metrics/metrics.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "cordon/abi.h"

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };

#define CORDON_X(e, n, d) LABEL_##e,
enum label { CORDON_METRIC_LABELS(CORDON_X) LABEL_COUNT };
#undef CORDON_X

#define CORDON_X(e, n, d) { n, d },
static const struct {
	const char *name, *doc;
} labels[] = { CORDON_METRIC_LABELS(CORDON_X) };
#undef CORDON_X

#define CORDON_X(e, k, n, a, b, d) { n, KIND_##k, LABEL_##a, LABEL_##b, d },
static const struct {
	const char *name;
	enum kind kind;
	enum label a, b;
	const char *doc;
} metrics[] = { CORDON_METRICS(CORDON_X) };
#undef CORDON_X

#define CORDON_X(e, n, d) n,
static const char *const types[] = { CORDON_TYPES(CORDON_X) };
static const char *const causes[] = { CORDON_FAULTS(CORDON_X) };
#undef CORDON_X
/* What only allows has none. */
#define CORDON_WORD_ALLOW(name) NULL
#define CORDON_WORD_DENY(name) name
#define CORDON_X(e, v, n, d) CORDON_WORD_##v(n),
static const char *const rules[] = { CORDON_RULES(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, n) n,
static const char *const verdicts[] = { CORDON_VERDICTS(CORDON_X) };
#undef CORDON_X

#define CORDON_X(bound) bound,
static const double buckets[] = { CORDON_METRIC_BUCKETS(CORDON_X) };
#undef CORDON_X

enum { PLACES_A = 128, PLACES_B = 4 };
_Static_assert(METRICS_LABELS_MAX < PLACES_A && ARRAY_SIZE(types) < PLACES_A &&
		       ARRAY_SIZE(causes) < PLACES_A && ARRAY_SIZE(rules) < PLACES_A &&
		       ARRAY_SIZE(verdicts) <= PLACES_B,
	       "each value of a label has its place");

/* A double, as its bits. */
static atomic_ullong value[METRIC_COUNT][PLACES_A][PLACES_B];
static struct {
	atomic_ullong bucket[ARRAY_SIZE(buckets) + 1]; /* each alone; the text adds them up */
	atomic_ullong sum;
} histogram[METRIC_COUNT];

/* Values of free labels. The last place is for all that found none. */
static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static char texts[LABEL_COUNT][METRICS_LABELS_MAX][METRICS_LABEL_TEXT_MAX + 1];
static atomic_bool others[LABEL_COUNT]; /* something did */

static double from_bits(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

static uint64_t to_bits(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof(bits));
	return bits;
}

static void number_add(atomic_ullong *number, double more)
{
	unsigned long long before = atomic_load_explicit(number, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(number, &before,
						      to_bits(from_bits(before) + more),
						      memory_order_relaxed, memory_order_relaxed))
		;
}

static bool label_is_free(enum label label)
{
	return label != LABEL_NONE && label != LABEL_TYPE && label != LABEL_VERDICT &&
	       label != LABEL_CAUSE && label != LABEL_RULE;
}

/* The words of a label of tables.h, or none; NULL: no value of the label. */
static size_t label_words(enum label label, const char *const **ret_words)
{
	static const char *const nothing[] = { "" };

	switch (label) {
	case LABEL_TYPE:
		*ret_words = types;
		return ARRAY_SIZE(types);
	case LABEL_VERDICT:
		*ret_words = verdicts;
		return ARRAY_SIZE(verdicts);
	case LABEL_CAUSE:
		*ret_words = causes;
		return ARRAY_SIZE(causes);
	case LABEL_RULE:
		*ret_words = rules;
		return ARRAY_SIZE(rules);
	default:
		*ret_words = nothing;
		return 1;
	}
}

static atomic_ullong *place(enum metric metric, unsigned int a, unsigned int b)
{
	return &value[metric][a < PLACES_A ? a : PLACES_A - 1][b < PLACES_B ? b : PLACES_B - 1];
}

void metrics_add(enum metric metric, unsigned int a, unsigned int b, double more)
{
	number_add(place(metric, a, b), more);
}

void metrics_set(enum metric metric, unsigned int a, unsigned int b, double number)
{
	atomic_store_explicit(place(metric, a, b), to_bits(number), memory_order_relaxed);
}

void metrics_observe(enum metric metric, double number)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(buckets) && number > buckets[i])
		i++;
	atomic_fetch_add_explicit(&histogram[metric].bucket[i], 1, memory_order_relaxed);
	number_add(&histogram[metric].sum, number);
}

/* --- free labels --------------------------------------------------------------------------------------------------- */

/* With the lock: where the text is, or -1. */
static int text_find(enum label label, const char *text)
{
	for (int i = 0; i < METRICS_LABELS_MAX; i++)
		if (strncmp(texts[label][i], text, METRICS_LABEL_TEXT_MAX) == 0)
			return i;
	return -1;
}

unsigned int metrics_label(enum metric metric, const char *text)
{
	enum label label = metrics[metric].a;
	int at;

	if (!text[0])
		text = "-";
	pthread_mutex_lock(&texts_lock);
	at = text_find(label, text);
	if (at < 0) {
		at = text_find(label, ""); /* the first that is free */
		if (at >= 0)
			snprintf(texts[label][at], sizeof(texts[label][at]), "%.*s",
				 METRICS_LABEL_TEXT_MAX, text);
	}
	if (at < 0)
		others[label] = true;
	pthread_mutex_unlock(&texts_lock);
	return at < 0 ? METRICS_LABELS_MAX : (unsigned int)at;
}

void metrics_forget(enum metric metric, const char *text)
{
	enum label label = metrics[metric].a;
	int at;

	pthread_mutex_lock(&texts_lock);
	at = text[0] ? text_find(label, text) : -1;
	if (at >= 0) {
		texts[label][at][0] = '\0';
		for (unsigned int m = 0; m < METRIC_COUNT; m++)
			for (unsigned int b = 0; metrics[m].a == label && b < PLACES_B; b++)
				value[m][at][b] = 0;
	}
	pthread_mutex_unlock(&texts_lock);
}

void metrics_reset(void)
{
	pthread_mutex_lock(&texts_lock);
	memset(value, 0, sizeof(value));
	memset(histogram, 0, sizeof(histogram));
	memset(texts, 0, sizeof(texts));
	memset(others, 0, sizeof(others));
	pthread_mutex_unlock(&texts_lock);
}

/* --- the text ------------------------------------------------------------------------------------------------------ */

static void number_print(FILE *out, double d)
{
	if (d == floor(d) && fabs(d) < 9007199254740992.0)
		fprintf(out, " %.0f\n", d);
	else
		fprintf(out, " %.9g\n", d);
}

/* As the format has it: backslash, quote and newline are escaped. */
static void label_print(FILE *out, const char *separator, const char *name, const char *text)
{
	fprintf(out, "%s%s=\"", separator, name);
	for (; *text; text++) {
		if (*text == '\n') {
			fputs("\\n", out);
			continue;
		}
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((unsigned char)*text < ' ' ? '?' : *text, out);
	}
	fputc('"', out);
}

static void series_print(FILE *out, unsigned int metric, unsigned int a, const char *text_a,
			 unsigned int b, const char *text_b)
{
	fputs(metrics[metric].name, out);
	if (metrics[metric].a != LABEL_NONE)
		label_print(out, "{", labels[metrics[metric].a].name, text_a);
	if (metrics[metric].b != LABEL_NONE)
		label_print(out, ",", labels[metrics[metric].b].name, text_b);
	if (metrics[metric].a != LABEL_NONE)
		fputc('}', out);
	number_print(out, from_bits(value[metric][a][b]));
}

static void histogram_print(FILE *out, unsigned int metric)
{
	unsigned long long sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(buckets); i++) {
		sum += histogram[metric].bucket[i];
		fprintf(out, "%s_bucket{le=\"%g\"} %llu\n", metrics[metric].name, buckets[i], sum);
	}
	sum += histogram[metric].bucket[ARRAY_SIZE(buckets)];
	fprintf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum", metrics[metric].name, sum,
		metrics[metric].name);
	number_print(out, from_bits(histogram[metric].sum));
	fprintf(out, "%s_count %llu\n", metrics[metric].name, sum);
}

/* With the lock. */
static void metric_print(FILE *out, unsigned int metric)
{
	static const char *const kinds[] = { "counter", "gauge", "histogram" };
	const char *const *words_a, *const *words_b;
	enum label a = metrics[metric].a;
	size_t n_a = label_words(a, &words_a), n_b = label_words(metrics[metric].b, &words_b);

	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[metric].name, metrics[metric].doc,
		metrics[metric].name, kinds[metrics[metric].kind]);
	if (metrics[metric].kind == KIND_HISTOGRAM) {
		histogram_print(out, metric);
		return;
	}
	if (label_is_free(a)) {
		for (unsigned int i = 0; i < METRICS_LABELS_MAX; i++)
			if (texts[a][i][0])
				series_print(out, metric, i, texts[a][i], 0, "");
		if (others[a])
			series_print(out, metric, METRICS_LABELS_MAX, "other", 0, "");
		return;
	}
	for (unsigned int i = 0; i < n_a; i++)
		for (unsigned int j = 0; words_a[i] && j < n_b; j++)
			series_print(out, metric, i, words_a[i], j, words_b[j]);
}

int metrics_write(FILE *out)
{
	pthread_mutex_lock(&texts_lock);
	for (unsigned int i = 0; i < METRIC_COUNT; i++)
		metric_print(out, i);
	pthread_mutex_unlock(&texts_lock);
	return ferror(out) ? -EIO : 0;
}

/* --- docs/metrics.md ----------------------------------------------------------------------------------------------- */

static const char doc_head[] =
	"<!-- Generated by `build/unit/test_metrics --print-doc` from user/metrics/table.h. -->\n"
	"\n"
	"# Metrics\n"
	"\n"
	"cordond answers `GET /metrics` in the text format of Prometheus, on a unix socket or a "
	"loopback\n"
	"address; off unless `metrics.address` is given (docs/cordond.md). There is no "
	"authentication: whoever\n"
	"can connect can read the figures, the ids of fences and the names of sinks. A socket is "
	"made with mode\n"
	"0660, of user and group cordon. At most 16 connections at a time; a request has 4 KiB and "
	"5 s.\n"
	"\n"
	"```yaml\n"
	"metrics: {address: unix:/run/cordon/metrics/socket}    # or 127.0.0.1:9464\n"
	"```\n"
	"\n"
	"The front counts, the part of cordond without privilege; one that was started again "
	"begins "
	"with 0, which\n"
	"`rate()` and `increase()` know how to take. What it cannot have seen, because it was not "
	"there, is in gap\n"
	"records or in the kernel's own counts (`cordon list`).\n"
	"\n"
	"`packaging/cordon.rules.yml` has alert rules for them.\n"
	"\n"
	"| name | kind | labels | meaning |\n"
	"|---|---|---|---|\n";

void metrics_print_doc(FILE *out)
{
	static const char *const kinds[] = { "counter", "gauge", "histogram" };

	fputs(doc_head, out);
	for (size_t i = 0; i < METRIC_COUNT; i++) {
		fprintf(out, "| `%s` | %s | ", metrics[i].name, kinds[metrics[i].kind]);
		if (metrics[i].a != LABEL_NONE)
			fprintf(out, "`%s`", labels[metrics[i].a].name);
		if (metrics[i].b != LABEL_NONE)
			fprintf(out, ", `%s`", labels[metrics[i].b].name);
		fprintf(out, " | %s |\n", metrics[i].doc);
	}
	fputs("\n| label | value |\n|---|---|\n", out);
	for (size_t i = LABEL_NONE + 1; i < LABEL_COUNT; i++)
		fprintf(out, "| `%s` | %s |\n", labels[i].name, labels[i].doc);
	fprintf(out,
		"\nValues of a label that is known only at run time: at most %d, of %d bytes; "
		"further "
		"ones are counted as `other`.\n",
		METRICS_LABELS_MAX, METRICS_LABEL_TEXT_MAX);
}
