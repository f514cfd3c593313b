/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's calls, for spin: every order of what two gateways, their clients, approvers and an operator can do, with
 * a crash between any two transactions and the take-over of a gateway that only slept. Each atomic block is one
 * transaction of the store; what a gateway remembers between two of them is lost in a crash.
 *
 * Checked: a key has at most one effect (EFFECT); what no human approved stays within the limit (PLAIN); when nothing more
 * happens, no key is left in a state that is not final, and the quota is what the states say (END).
 *
 * steps.pml is generated from user/ledger/codes.h: the model can make no step that is not in LEDGER_STEPS, and prints the
 * steps that it made, so that tests/prove/ledger can see that it made all of them.
 *
 * One thing is assumed of people: an operator settles a call as failed only when no gateway can still send its request,
 * that is, when the gateway that had it is known to be dead or to have been started again. Without it (-DRASH) spin
 * finds two effects.
 */
#include "steps.pml"

#define KEYS 2
#define GATEWAYS 2
#define LIMIT 1
#define NOBODY 9

/* What a gateway remembers. */
#define IDLE 0
#define RESERVED 1 /* a call is reserved for it to run */
#define MAY_SEND 2 /* START was committed; the request leaves at any time */
#define ANSWERED 3 /* the outcome is known, or known to be unknown */
#define LATE 4     /* said ambiguous; the answer may still come */

c_decl {
	static int seen[32][32][32];
};

byte state[KEYS];
byte owner[KEYS] = NOBODY;
byte attempt[KEYS];	/* id of the call: a new one for each attempt */
bool approved[KEYS];	/* this attempt, by a human */
byte effects[KEYS];
byte plain;		/* effects that no human approved */
byte used;
byte tries[KEYS] = 2;
byte crashes = 2;
byte takeovers = 1;

byte memory[GATEWAYS];
byte mine[GATEWAYS];	    /* key, while memory is not IDLE */
byte mine_attempt[GATEWAYS];
byte outcome[GATEWAYS];
bool fenced[GATEWAYS];	    /* its epoch was raised: it can write nothing until it is started again */

byte from_, step_, to_;

/* One row of LEDGER_STEPS. */
inline move(m_k, m_step, m_to)
{
	from_ = state[m_k];
	step_ = m_step;
	to_ = m_to;
	assert(ALLOWED(from_, step_, to_));
	c_code {
		if (!seen[now.from_][now.step_][now.to_]++)
			printf("took %d %d %d\n", now.from_, now.step_, now.to_);
	};
	used = used + (COUNTS(to_) -> 1 : 0) - (COUNTS(from_) -> 1 : 0);
	state[m_k] = m_to;
	from_ = 0;
	step_ = 0;
	to_ = 0
}

inline effect(e_k)
{
	effects[e_k]++;
	assert(effects[e_k] <= 1); /* EFFECT */
	if
	:: !approved[e_k] -> plain++
	:: else
	fi;
	assert(plain <= LIMIT) /* PLAIN */
}

inline begin(b_g, b_k, b_what)
{
	owner[b_k] = b_g;
	attempt[b_k]++;
	memory[b_g] = b_what;
	mine[b_g] = b_k;
	mine_attempt[b_g] = attempt[b_k]
}

inline forget(f_g)
{
	memory[f_g] = IDLE;
	mine[f_g] = 0;
	mine_attempt[f_g] = 0;
	outcome[f_g] = 0
}

#define HAS(g, s) (state[mine[g]] == s && owner[mine[g]] == g && attempt[mine[g]] == mine_attempt[g])

/* What its owner left, in one transaction a call; the owner cannot write meanwhile. */
inline recover(r_g)
{
	byte i = 0;
	do
	:: i < KEYS ->
		if
		:: owner[i] == r_g && state[i] == S_RESERVED -> move(i, P_RECOVER, S_FAILED)
		:: owner[i] == r_g && state[i] == S_EXECUTING -> move(i, P_RECOVER, S_AMBIGUOUS)
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline submit(s_g, s_k)
{
	atomic {
		memory[s_g] == IDLE && !fenced[s_g] && tries[s_k] > 0 &&
			(state[s_k] == S_NONE || state[s_k] == S_FAILED) ->
		tries[s_k]--;
		approved[s_k] = false;
		if
		:: used < LIMIT -> move(s_k, P_SUBMIT, S_DONE); effect(s_k)	   /* executor sql */
		:: used < LIMIT -> move(s_k, P_SUBMIT, S_RESERVED); begin(s_g, s_k, RESERVED)
		:: used < LIMIT -> move(s_k, P_SUBMIT, S_EXECUTING); begin(s_g, s_k, MAY_SEND)
		:: true -> move(s_k, P_SUBMIT, S_HELD) /* above single, or the daily limit is used up */
		:: true -> skip			     /* refused: the key is not burnt */
		fi
	}
}

inline human(h_g, h_k)
{
	atomic {
		memory[h_g] == IDLE && !fenced[h_g] && state[h_k] == S_HELD ->
		if
		:: approved[h_k] = true; move(h_k, P_APPROVE, S_DONE); effect(h_k)
		:: approved[h_k] = true; move(h_k, P_APPROVE, S_EXECUTING); begin(h_g, h_k, MAY_SEND)
		:: move(h_k, P_APPROVE, S_FAILED) /* the operator's statement failed and was undone */
		:: move(h_k, P_REFUSE, S_REFUSED)
		:: move(h_k, P_DENY, S_DENIED)
		:: move(h_k, P_EXPIRE, S_EXPIRED)
		fi
	}
}

proctype gateway(byte g)
{
end:
	do
	:: submit(g, 0)
	:: submit(g, 1)
	:: human(g, 0)
	:: human(g, 1)
	:: atomic { memory[g] == RESERVED && !fenced[g] ->
		if
		:: HAS(g, S_RESERVED) -> move(mine[g], P_START, S_EXECUTING); memory[g] = MAY_SEND
		:: HAS(g, S_RESERVED) -> move(mine[g], P_FINISH, S_FAILED); forget(g)
		:: else -> forget(g)
		fi }
	/* Not a transaction: the request leaves, whether or not the store has taken the call away meanwhile. */
	:: atomic { memory[g] == MAY_SEND ->
		if
		:: effect(mine[g]); outcome[g] = S_DONE
		:: outcome[g] = S_FAILED
		:: effect(mine[g]); outcome[g] = S_AMBIGUOUS
		:: outcome[g] = S_AMBIGUOUS
		fi;
		memory[g] = ANSWERED }
	:: atomic { memory[g] == ANSWERED && !fenced[g] ->
		if
		:: HAS(g, S_EXECUTING) && outcome[g] == S_AMBIGUOUS ->
			move(mine[g], P_FINISH, S_AMBIGUOUS); memory[g] = LATE
		:: HAS(g, S_EXECUTING) && outcome[g] != S_AMBIGUOUS ->
			move(mine[g], P_FINISH, outcome[g]); forget(g)
		:: else -> forget(g)
		fi }
	:: atomic { memory[g] == LATE && !fenced[g] ->
		if
		:: HAS(g, S_AMBIGUOUS) ->
			move(mine[g], P_FINISH, (effects[mine[g]] > 0 -> S_DONE : S_FAILED)); forget(g)
		:: forget(g) /* the answer never comes */
		fi }
	/* Killed, and started again: what it remembered is gone, what it left is resolved first. */
	:: atomic { crashes > 0 -> crashes--; forget(g); fenced[g] = false; recover(g) }
	:: atomic { fenced[g] && memory[g] != MAY_SEND -> forget(g); fenced[g] = false; recover(g) }
	/* The other has not been heard of; it may be dead, or asleep. */
	:: atomic { takeovers > 0 && memory[g] == IDLE && !fenced[g] ->
		takeovers--; fenced[1 - g] = true; recover(1 - g) }
	od
}

#define CAN_SEND(k) ((memory[0] == MAY_SEND && mine[0] == k) || (memory[1] == MAY_SEND && mine[1] == k))

#ifdef RASH
#define SURE(k) true
#else
#define SURE(k) (effects[k] > 0 || !CAN_SEND(k))
#endif

proctype operator()
{
end:
	do
	:: atomic { state[0] == S_AMBIGUOUS && SURE(0) ->
		move(0, P_SETTLE, (effects[0] > 0 -> S_DONE : S_FAILED)) }
	:: atomic { state[1] == S_AMBIGUOUS && SURE(1) ->
		move(1, P_SETTLE, (effects[1] > 0 -> S_DONE : S_FAILED)) }
	od
}

/* Waits until nobody can do anything more. */
proctype watcher()
{
	timeout ->
	assert(FINAL(state[0]) && FINAL(state[1])); /* END */
	assert(used == (COUNTS(state[0]) -> 1 : 0) + (COUNTS(state[1]) -> 1 : 0));
	/* What had its effect is known to have had it. */
	assert((effects[0] == 0 || state[0] == S_DONE) && (effects[1] == 0 || state[1] == S_DONE));
	assert((state[0] != S_DONE || effects[0] == 1) && (state[1] != S_DONE || effects[1] == 1))
}

init {
	atomic {
		run gateway(0);
		run gateway(1);
		run operator();
		run watcher()
	}
}
