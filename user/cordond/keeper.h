/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the keeper. Root. */
#ifndef CORDON_CORDOND_KEEPER_H
#define CORDON_CORDOND_KEEPER_H

#include <sys/epoll.h>

#include "cordond/cordond.h"
#include "cordond/how.h"
#include "cordond/keeper_ceilings.h"
#include "cordond/wire.h"
#include "enforce/enforce.h"
#include "host/host.h"
#include "identity/identity.h"
#include "policy/policy.h"

#define KEEPER_DIR ENFORCE_RUN_DIR "/cordond"  /* root's */
#define KEEPER_ACCOUNTS KEEPER_DIR "/accounts" /* what fronts have seen of fences; see account.h */

struct keeper;

/* What epoll tells of. */
struct keeper_source {
	void (*ready)(struct keeper *keeper, struct keeper_source *source);
};

/* A fence that the keeper keeps. */
struct kept {
	struct keeper_source source; /* a gateway asks who the fence is */
	struct enforce_fence *fence;
	struct host_cgroup cgroup;
	struct identity_owner *identity;
	struct how how;
	struct image *image; /* while it is made */
	const char *
		root; /* the same, of a container that is about to start; NULL: what is fenced runs. Borrowed */
	struct keeper_ceilings ceilings;
	bool kill_said; /* that somebody could not be killed */
	uint64_t id;
	bool fresh;    /* made by this process */
	bool started;  /* the front was told of its start */
	bool shown;    /* the front has it */
	bool again;    /* the front that comes is not the first to have it */
	bool set_told; /* whose programs were in effect when it was taken over */
	bool ending;
	unsigned int ending_ticks;
	uint32_t serial; /* of the request that ends it; 0: none */
};

struct keeper_front {
	struct keeper_source source;	  /* messages */
	struct keeper_source exit_source; /* its end */
	pid_t pid;			  /* 0: there is none */
	int pidfd, fd;
	bool ready;
	bool greeted;	     /* hello and configuration were taken */
	unsigned int silent; /* ticks since a ping that is not answered; 0: none is under way */
	unsigned int age;    /* ticks */
};

/* Whose programs are in effect; see keeper_set.c. */
struct keeper_set {
	enum enforce_opened opened;
	struct error why; /* ENFORCE_OPENED_OLD: what this build's lack */
};

struct keeper {
	const struct cordond_options *options;
	struct host_report report;
	struct enforce *enforce;
	struct keeper_set set;
	bool degraded;
	char node[IDENTITY_NODE_MAX + 1];
	uint64_t started_ns, opened_ms;
	int lock_fd, listen_fd, events_fd, signal_fd, timer_fd, epoll_fd;
	int accounts_fd; /* of KEEPER_ACCOUNTS; survives all processes */
	bool accounts_locked;
	struct identity_maps
		maps; /* that owners of identities lend to gateways; -1: not opened yet */
	struct keeper_source signal_source, timer_source;
	struct keeper_front front;
	unsigned int fronts;   /* started so far */
	unsigned int pause;    /* ticks until the next is started */
	unsigned int failures; /* fronts that ended young, one after the other */
	unsigned int tick;
	struct kept **kept;
	size_t n_kept, room;
	bool adopt_again, adopt_said; /* not all could be taken over */
	bool stopping, ended;
	bool reloading; /* systemd waits for READY */
	int code;
};

/* keeper.c */
int keeper_watch(struct keeper *keeper, int fd, struct keeper_source *source);
/* To the front, if there is one that takes it; one that does not is ended. */
int keeper_tell(struct keeper *keeper, enum wire_type type, uint32_t serial,
		union wire_message *message, const int *fds);
/* What systemd shows of us. */
void keeper_status_notify(const struct keeper *keeper);

/* keeper_set.c: opens the programs of this node, of whatever build. */
int keeper_set_open(struct keeper *keeper, struct error *error);
bool keeper_set_is_old(const struct keeper *keeper);
int keeper_set_send(struct keeper *keeper);
/* An event of a fence that was taken over, if there is anything to tell. */
void keeper_set_fact(struct keeper *keeper, struct kept *f);
/* Some times a minute: others may bring in theirs, or ours. */
void keeper_set_tick(struct keeper *keeper);
/* Tries to bring in those of this build, where those of before are in effect. Takes seconds. */
void keeper_set_again(struct keeper *keeper);

/* keeper_make.c and keeper_request.c: requests of the front, received whole; what makes no sense returns -EPROTO. */
int keeper_attach(struct keeper *keeper, const struct wire_attach *request, int image_fd);
int keeper_reload(struct keeper *keeper, const struct wire_reload *request, int image_fd);
int keeper_detach(struct keeper *keeper, const struct wire_detach *request);
int keeper_gap(struct keeper *keeper, const struct wire_gap *request);
int keeper_remark(struct keeper *keeper, const struct wire_remark *request);
int keeper_number(struct keeper *keeper, const struct wire_number *request);
int keeper_ended(struct keeper *keeper, uint64_t fence_id);

/* keeper_adopt.c: takes over what an earlier keeper left. */
void keeper_adopt(struct keeper *keeper);

/* keeper_fence.c */
/* The accounts of all fences; may be called again. Without: -EIO, and *error says why. */
int keeper_accounts_open(struct keeper *keeper, struct error *error);
/* Without any fence the file goes, too. */
void keeper_accounts_close(struct keeper *keeper);
/* Before the front is shown a fence: nobody else reads their rings. 0, at once if it was so before, or -EIO. */
int keeper_accounts_lock(struct keeper *keeper, struct error *error);
/* Gives the front the next fence that it does not know. False when there is none, or it does not take it now. */
bool keeper_show_next(struct keeper *keeper);
/* A new front knows nothing. */
void keeper_forget_shown(struct keeper *keeper);
/* Some times a second: fences that broke, are empty, or whose end waits for a front that does not answer. */
void keeper_fences_tick(struct keeper *keeper);
/* Lets go of everything that is a process's; fences stay. */
void keeper_fences_leave(struct keeper *keeper);

#endif
