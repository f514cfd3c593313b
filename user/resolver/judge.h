/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names a fence may ask for, and which addresses it is told. Pure. Who may reach a name by the proxy, at whatever port, may
 * resolve it. Below a rule with `*.` the asker chooses the name, and whoever serves the domain reads it: so there it may be no
 * longer, nor more random, than names are; how many new ones it may be within a while the caller counts.
 */
#ifndef CORDON_RESOLVER_JUDGE_H
#define CORDON_RESOLVER_JUDGE_H

#include "ledger/codes.h"
#include "reach/reach.h"
#include "resolver/message.h"

/* Of what stands before the rule's own labels. */
#define JUDGE_LABEL_MAX 40  /* bytes of one label */
#define JUDGE_BELOW_MAX 100 /* bytes of all of it */
#define JUDGE_LABELS_MAX 6
#define JUDGE_BITS_MAX \
	128 /* Shannon's entropy of a label's letters, times their number, all labels together */

/*
 * domains[0..size): the fence's rules. LEDGER_OK, LEDGER_DOMAIN_DENIED or LEDGER_LABEL_DENIED. *ret_chosen: only a rule with `*.`
 * has the name.
 */
enum ledger_code judge_name(const char *domains, size_t size, const struct reach_name *name,
			    bool *ret_chosen);

/* Bits of text[0..n) as judge_name() counts them. */
double judge_bits(const char *text, size_t n);

/*
 * May a fence that has these rules of network.allow be told of addr? own: it is one of this host. NULL: yes; else why not, as
 * reach_decide_address().
 */
const char *judge_address(const struct cordon_addr *addr, bool own, const struct reach_allow *allow,
			  size_t n_allow);

#endif
