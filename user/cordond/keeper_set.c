// SPDX-License-Identifier: Apache-2.0
/*
 * Whose programs are in effect on this node. A keeper that starts over another build's brings its own in beside them
 * (enforce_upgrade()); where they are refused, or do not deny what they should, those of before enforce on, and the keeper
 * serves all the same: fences are taken over, made and ended on the old set. The status, a metric, the log and an event of
 * each fence say so, until a reload of the configuration tries again with success, or somebody else brings them in. Root.
 */
#include "cordond/keeper_fence.h"

#include <errno.h>

#include "cordond/notify.h"

static const char another[] = "what is loaded is of another build, by another cordon";

int keeper_set_open(struct keeper *k, struct error *error)
{
	int err = enforce_open_upgraded(&k->report, k->degraded, &k->enforce, &k->set.opened,
					&k->set.why, error);

	if (err)
		return err;
	if (k->set.opened == ENFORCE_OPENED_UPGRADED)
		cordond_say("the programs of this build took over from those of another");
	else if (k->set.opened == ENFORCE_OPENED_OLD)
		cordond_say("the programs of this build are not in effect: %s; those of before "
			    "enforce on",
			    k->set.why.text);
	return 0;
}

bool keeper_set_is_old(const struct keeper *k)
{
	return k->set.opened == ENFORCE_OPENED_OLD;
}

void keeper_set_fact(struct keeper *k, struct kept *f)
{
	if (k->set.opened == ENFORCE_OPENED_UPGRADED)
		kept_fact(k, f, CORDON_OP_UPGRADE, 0,
			  "the programs of this build took over from those of another");
	else if (keeper_set_is_old(k))
		kept_fact(k, f, CORDON_OP_OLD_SET, 0, k->set.why.text);
}

int keeper_set_send(struct keeper *k)
{
	union wire_message m = { .head = { 0 } };

	if (keeper_set_is_old(k))
		snprintf(m.SET.why, sizeof(m.SET.why), "%s", k->set.why.text);
	return keeper_tell(k, WIRE_SET, 0, &m, NULL);
}

/* It is another now: all who are told of it are told. */
static void changed(struct keeper *k, enum enforce_opened opened, const char *why)
{
	k->set.opened = opened;
	snprintf(k->set.why.text, sizeof(k->set.why.text), "%s", why);
	cordond_say(keeper_set_is_old(k) ? "the programs of this build are not in effect: %s"
					 : "the programs of this build are in effect%s",
		    why);
	for (size_t i = 0; i < k->n_kept; i++)
		if (!k->kept[i]->ending)
			keeper_set_fact(k, k->kept[i]);
	if (k->front.greeted)
		keeper_set_send(k);
	keeper_status_notify(k);
}

void keeper_set_tick(struct keeper *k)
{
	bool own = enforce_is_own();

	if (own && keeper_set_is_old(k))
		changed(k, ENFORCE_OPENED_UPGRADED, "");
	else if (!own && !keeper_set_is_old(k))
		changed(k, ENFORCE_OPENED_OLD, another);
}

void keeper_set_again(struct keeper *k)
{
	struct error why = { "" };

	if (!keeper_set_is_old(k))
		return;
	notify_send("WATCHDOG=1"); /* it may take a while */
	if (!enforce_upgrade(&k->report, &why))
		changed(k, ENFORCE_OPENED_UPGRADED, "");
	else if (strcmp(why.text, k->set.why.text) != 0)
		changed(k, ENFORCE_OPENED_OLD, why.text);
	else
		cordond_say("the programs of this build are still refused: %s", why.text);
}
