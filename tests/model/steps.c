// SPDX-License-Identifier: Apache-2.0
/*
 * Prints the tables of user/ledger/codes.h for the model: as Promela (no argument), or the rows of LEDGER_STEPS as the
 * model reports them ("rows").
 */

#include <stdio.h>
#include <string.h>

#include "ledger/codes.h"

static const struct {
	int from, step, to;
} steps[] = {
#define X(from, step, to, effect) { LEDGER_STATE_##from, LEDGER_STEP_##step, LEDGER_STATE_##to },
	LEDGER_STEPS(X)
#undef X
};

static void print_set(const char *name, bool (*in)(enum ledger_state state))
{
	printf("#define %s(s) (false", name);
	for (int i = 0; i < LEDGER_STATES_N; i++)
		if (in((enum ledger_state)i))
			printf(" || s == %d", i);
	printf(")\n");
}

int main(int argc, char **argv)
{
	const size_t n = sizeof(steps) / sizeof(steps[0]);

	if (argc > 1 && strcmp(argv[1], "rows") == 0) {
		for (size_t i = 0; i < n; i++)
			printf("took %d %d %d\n", steps[i].from, steps[i].step, steps[i].to);
		return 0;
	}
#define X(id, name, counts, final) printf("#define S_%s %d\n", #id, LEDGER_STATE_##id);
	LEDGER_STATES(X)
#undef X
#define P(id) printf("#define P_%s %d\n", #id, LEDGER_STEP_##id);
	P(SUBMIT)
	P(START)
	P(FINISH)
	P(RECOVER)
	P(APPROVE)
	P(REFUSE)
	P(DENY)
	P(EXPIRE)
	P(SETTLE)
#undef P
	print_set("COUNTS", ledger_state_counts);
	print_set("FINAL", ledger_state_final);
	printf("#define ALLOWED(f, s, t) (false");
	for (size_t i = 0; i < n; i++)
		printf(" || (f == %d && s == %d && t == %d)", steps[i].from, steps[i].step,
		       steps[i].to);
	printf(")\n");
	return 0;
}
