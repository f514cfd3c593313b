// SPDX-License-Identifier: Apache-2.0
/*
 * Case C-11: no switch of a policy is a silent no-op unless another one is on. Every pair of switches is compiled, on
 * and off: a policy that is taken must show the effect of each switch that is on, whatever the other says; one that is
 * refused must name one of the two. What depends on what is a table here, and that a switch is refused without what
 * it needs, too. Needs no privilege.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/fault.h"
#include "cordon/decide.h"
#include "policy/policy.h"
#include "util/util.h"

/* A switch: where it stands in the text, what turns it on, and the one that it cannot do without. */
static const struct switch_row {
	const char *section; /* "" : at the top */
	const char *text;
	const char *needs; /* text of a switch, or NULL */
} switches[] = {
#define GATEWAY "gateway: 127.0.0.1:8800"
#define DNS "dns: gateway"
	{ "", "mode: audit", NULL },
	{ "", "scopes: [refund:create]", GATEWAY },
	{ "", "labels: {team: payments}", NULL },
	{ "files", "private: []", NULL },
	{ "files", "write: [/srv]", NULL },
	{ "read", "deny: [/root]", NULL },
	{ "read", "allow: [/usr]", NULL },
	{ "exec", "deny: [/opt]", NULL },
	{ "exec", "allow: [/usr]", NULL },
	{ "network", GATEWAY, NULL },
	{ "network", DNS, GATEWAY },
	{ "network", "resolver: 127.0.0.1:5353", DNS },
	{ "network", "allow: [{to: 192.0.2.0/24}]", NULL },
	{ "network", "loopback: allow", NULL },
	{ "network", "loopback: deny", NULL },
	{ "network", "listen: [8080]", NULL },
	{ "network", "unix: [/run/x.sock]", NULL },
	{ "env", "pass: [PATH]", NULL },
	{ "env", "set: {A: b}", NULL },
};

enum { SWITCHES = ARRAY_SIZE(switches), TEXT_MAX = 2048, EFFECT_MAX = 64 * 1024 };

/* What a policy makes happen: the image, and what is carried out without the kernel programs. */
struct effect {
	bool taken;
	size_t size;
	char bytes[EFFECT_MAX];
	char faults[TEXT_MAX];
};

static void section_print(FILE *out, const bool *on, const char *section, const char *indent)
{
	bool any = false;

	for (int i = 0; i < SWITCHES; i++) {
		if (!on[i] || strcmp(switches[i].section, section))
			continue;
		if (!any && section[0])
			fprintf(out, "%s%s:\n", indent, section);
		fprintf(out, "%s%s%s\n", indent, section[0] ? "  " : "", switches[i].text);
		any = true;
	}
}

static void text_make(const bool *on, char text[TEXT_MAX])
{
	_cleanup_fclose_ FILE *out = fmemopen(text, TEXT_MAX, "w");

	assert_non_null(out);
	fprintf(out, "cordon: 1\nname: t\n");
	section_print(out, on, "", "");
	fprintf(out, "files:\n  workdir: /var/lib/t\n");
	for (int i = 0; i < SWITCHES; i++)
		if (on[i] && !strcmp(switches[i].section, "files"))
			fprintf(out, "  %s\n", switches[i].text);
	section_print(out, on, "read", "  ");
	section_print(out, on, "exec", "  ");
	section_print(out, on, "network", "");
	section_print(out, on, "env", "");
}

static void strings_print(FILE *out, const char *name, const struct policy_strings *strings)
{
	fprintf(out, "%s:", name);
	for (size_t i = 0; i < strings->n; i++)
		fprintf(out, " %s", strings->v[i]);
	fputc('\n', out);
}

static void effect_of(const bool *on, struct effect *effect)
{
	const struct policy_options options = { .need_workdir = true };
	struct conf_faults faults = { .n = 0 };
	_cleanup_free_ struct image *image = NULL;
	struct policy *policy = NULL;
	char text[TEXT_MAX] = "";
	FILE *out = fmemopen(effect->bytes, EFFECT_MAX, "w");

	assert_non_null(out);
	text_make(on, text);
	effect->taken = !policy_parse(text, strlen(text), &options, &policy, &faults);
	effect->faults[0] = '\0';
	for (size_t i = 0; i < faults.n; i++)
		snprintf(effect->faults + strlen(effect->faults),
			 sizeof(effect->faults) - strlen(effect->faults), "%s\n", faults.v[i].text);
	if (effect->taken) {
		assert_int_equal(policy_compile(policy, &image), 0);
		fwrite(image, 1, image->size_bytes, out);
		strings_print(out, "private", &policy->private_dirs);
		strings_print(out, "pass", &policy->env_pass);
		strings_print(out, "set", &policy->env_set);
		strings_print(out, "scopes", &policy->scopes);
		strings_print(out, "labels", &policy->labels);
	}
	effect->size = ftell(out);
	fclose(out);
	policy_free(policy);
	conf_faults_clear(&faults);
}

static bool same(const struct effect *a, const struct effect *b)
{
	return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

/* With all that it needs. */
static void turn_on(bool *on, int i)
{
	on[i] = true;
	for (int k = 0; switches[i].needs && k < SWITCHES; k++)
		if (!strcmp(switches[k].text, switches[i].needs))
			turn_on(on, k);
}

static struct effect with, without;

/* The switch, on and off, where `others` are on; the effect must be there, or the text refused for a reason. */
static void look(const bool *others, int i)
{
	bool on[SWITCHES];
	char key[64];

	memcpy(on, others, sizeof(on));
	turn_on(on, i);
	effect_of(on, &with);
	if (!with.taken) {
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(switches[i].text, ":"),
			 switches[i].text);
		if (!strstr(with.faults, key))
			fail_msg("%s: refused, not by its name: %s", switches[i].text, with.faults);
		return;
	}
	on[i] = false;
	effect_of(on, &without);
	if (!without.taken)
		return; /* others need it: their effect is looked at in their own turn */
	if (same(&with, &without))
		fail_msg("%s: taken, and nothing comes of it", switches[i].text);
}

static void each_has_its_effect(void **state)
{
	(void)state;
	for (int i = 0; i < SWITCHES; i++) {
		const bool none[SWITCHES] = { false };

		look(none, i);
		assert_true(with.taken);
	}
}

static void each_pair_has_both_effects(void **state)
{
	unsigned int taken = 0;

	(void)state;
	for (int i = 0; i < SWITCHES; i++)
		for (int k = 0; k < SWITCHES; k++) {
			bool others[SWITCHES] = { false };

			if (i == k)
				continue;
			turn_on(others, k);
			look(others, i);
			taken += with.taken;
		}
	/* What is refused: the two of loopback with each other. */
	assert_int_equal(taken, SWITCHES * (SWITCHES - 1) - 2);
}

static void needs_are_named(void **state)
{
	(void)state;
	for (int i = 0; i < SWITCHES; i++) {
		bool on[SWITCHES] = { false };

		if (!switches[i].needs)
			continue;
		on[i] = true;
		effect_of(on, &with);
		assert_false(with.taken);
		/* By the key that is missing. */
		if (!strstr(with.faults, "network.gateway") && !strstr(with.faults, "dns: gateway"))
			fail_msg("%s: %s", switches[i].text, with.faults);
	}
}

/* An empty list of exceptions is none: nothing but the gateway is reached. */
static void empty_allow_is_default_deny(void **state)
{
	static const char text[] = "cordon: 1\nname: t\nfiles: {workdir: /var/lib/t}\n"
				   "network: {gateway: 127.0.0.1:8800, allow: []}\n";
	const struct policy_options options = { .need_workdir = true };
	struct conf_faults faults = { .n = 0 };
	_cleanup_free_ struct image *image = NULL;
	struct policy *policy = NULL;
	struct cordon_addr there, gateway;

	(void)state;
	decide_addr4(&there, (const uint8_t[]){ 192, 0, 2, 1 });
	decide_addr4(&gateway, (const uint8_t[]){ 127, 0, 0, 1 });
	assert_int_equal(policy_parse(text, sizeof(text) - 1, &options, &policy, &faults), 0);
	assert_int_equal(policy_compile(policy, &image), 0);
	assert_int_equal(image->n_nets, 0);
	assert_int_equal(decide_net(&image->policy, &there, decide_class(&there), 6, 443, NULL),
			 CORDON_RULE_NET_DEFAULT);
	assert_int_equal(decide_net(&image->policy, &gateway, decide_class(&gateway), 6, 8800,
				    NULL),
			 CORDON_RULE_NET_GATEWAY);
	policy_free(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_its_effect),
		cmocka_unit_test(each_pair_has_both_effects),
		cmocka_unit_test(needs_are_named),
		cmocka_unit_test(empty_allow_is_default_deny),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
