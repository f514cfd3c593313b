# SPDX-License-Identifier: Apache-2.0
#
# Cordon. `make help` lists the targets. All output goes to build/; V=1 shows commands; SAN=address,undefined builds
# user space with sanitizers (into build-san/). Headers are tracked by -MMD for both compilers, so a change of a
# shared record rebuilds the BPF side too.

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

SAN ?=
O := $(if $(SAN),build-san,build)

CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
DESTDIR ?=
PREFIX ?= /usr
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share/cordon
LIBEXECDIR ?= $(PREFIX)/libexec/cordon
HOOKSDIR ?= $(PREFIX)/share/containers/oci/hooks.d
UNITDIR ?= $(PREFIX)/lib/systemd/system
VERSION := 0.1.0

ARCH_INCLUDE := $(wildcard /usr/include/$(shell uname -m)-linux-gnu)
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter
CFLAGS ?= -O2 -g
HARDEN := -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -DCORDON_VERSION='"$(VERSION)"' -Iinclude -Iuser -I$(O) $(WARN) $(CFLAGS) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer,$(HARDEN))
ALL_LDFLAGS = $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN),-pie -Wl,-z,relro,-z,now)
BPF_CFLAGS = -target bpf -mcpu=v3 -O2 -g -D__TARGET_ARCH_x86 -Iinclude -Ivmlinux -Ibpf \
	$(addprefix -I,$(ARCH_INCLUDE)) -Wall -Wextra -Wno-unused-parameter \
	-Wno-gnu-variable-sized-type-not-at-end -Wno-missing-declarations

Q := $(if $(V),,@)
say = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),@:,@printf '  %-7s %s\n' $(1) $(2))

JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j2)

# Which part may use which is checked by tests/lint/layers: util <- reach, conf, control, chain <- event, record, policy, gwconf, host, identity <- enforce <- cordon.
PARTS := util reach conf control chain event record policy gwconf host identity enforce
LIBS := $(PARTS:%=$(O)/lib%.a)
LDLIBS := -lbpf -lelf -lz -lyaml -ljansson -lcrypto
# The ledger is the gateway's: whoever links it links these, then util.
LEDGER_LIBS := $(O)/libledger.a
# So are grants; with them -lcrypto and -ljansson.
GRANT_LIBS := $(O)/libgrant.a
# The gateway's administration: links the two above and $(LIBS).
ADMIN_LIBS := $(O)/libadmin.a
# Where events go; on event, chain, conf and util. Whoever links it links SINK_LDLIBS, too.
SINK_LIBS := $(O)/libsink.a
# Alerts of Cordon's own; on event.
ALERT_LIBS := $(O)/libalert.a
# Figures for Prometheus and their endpoint; on util.
METRICS_LIBS := $(O)/libmetrics.a
METRICS_LDLIBS := -levent_core -lm -lpthread
SINK_LDLIBS := -lrdkafka -ljansson -lssl -lcrypto -lpthread
LEDGER_LDLIBS := -lsqlite3 -lpq -lcrypto -ljansson -lpthread

src = $(sort $(wildcard user/$(1)/*.c))
obj = $(patsubst %.c,$(O)/%.o,$(call src,$(1)))

PROGRAMS := $(O)/cordon $(O)/cordond $(O)/cordon-gateway
UNIT := $(patsubst tests/unit/%.c,$(O)/unit/%,$(wildcard tests/unit/test_*.c))
RACE := $(O)/race $(O)/tests/race/enter $(O)/tests/race/image
FUZZ := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

# A word about missing packages before the first compiler fails.
.PHONY: toolchain
toolchain:
	$(Q)packaging/deps --check

# Kept, or the next make would make them, and all that is made of them, anew.
.SECONDARY: $(O)/bpf/enforce.bpf.o $(O)/bpf/cgroup_only.bpf.o

.PHONY: all
all: $(PROGRAMS) $(LEDGER_LIBS) $(ADMIN_LIBS) $(O)/cordon.1 $(O)/cordond.8 $(O)/cordon-gateway.8 ## build everything into build/

# --- the kernel side ---------------------------------------------------------------------------------------------

$(O)/bpf/%.bpf.o: bpf/%.bpf.c Makefile | toolchain
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

# The name of a skeleton is a C identifier of its own: struct cordon_enforce.
$(O)/%.skel.h: $(O)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name cordon_$* > $@

# --- user space --------------------------------------------------------------------------------------------------

$(O)/%.o: %.c Makefile | toolchain
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(O)/user/enforce/object.o: $(O)/enforce.skel.h $(O)/cgroup_only.skel.h

define part_rule
$(O)/lib$(1).a: $(call obj,$(1))
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach p,$(PARTS),$(eval $(call part_rule,$(p))))
$(eval $(call part_rule,ledger))
$(eval $(call part_rule,grant))
$(eval $(call part_rule,mcp))
$(eval $(call part_rule,broker))
$(eval $(call part_rule,admin))
$(eval $(call part_rule,sink))
$(eval $(call part_rule,metrics))
$(eval $(call part_rule,alert))
$(O)/user/ledger/postgres.o: ALL_CFLAGS += -isystem /usr/include/postgresql

# Later parts use earlier ones, so the linker sees them last to first.
reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
LINK_LIBS := $(call reverse,$(LIBS))

# What the command speaks with the daemon.
CORDOND_WORDS := $(O)/user/cordond/protocol.o

# Of OpenSSL it needs SHA-256 alone: the shared library would be half of what `cordon run` holds in memory.
$(O)/cordon: $(call obj,cordon) $(CORDOND_WORDS) $(LIBS) $(ADMIN_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(call obj,cordon) $(CORDOND_WORDS) $(ADMIN_LIBS) $(LINK_LIBS) $(LDLIBS:-lcrypto=-l:libcrypto.a)

CORDOND_LIBS := $(SINK_LIBS) $(METRICS_LIBS) $(ALERT_LIBS)
CORDOND_LDLIBS := $(SINK_LDLIBS) $(METRICS_LDLIBS)

$(O)/cordond: $(call obj,cordond) $(CORDOND_LIBS) $(LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(call obj,cordond) $(CORDOND_LIBS) $(LINK_LIBS) $(LDLIBS) $(CORDOND_LDLIBS)

$(O)/cordond.8: $(O)/cordond
	$(call say,MAN,$@)
	$(Q)$(O)/cordond --print-man > $@

# The gateway: everything but what needs a kernel's privilege.
GATEWAY_LIBS := $(O)/libmcp.a $(O)/libbroker.a $(ADMIN_LIBS) $(GRANT_LIBS) $(LEDGER_LIBS) $(O)/libidentity.a \
	$(patsubst %,$(O)/lib%.a,record event gwconf control conf reach util)
GATEWAY_OBJ := $(call obj,gateway) $(call obj,proxy) $(call obj,resolver)
GATEWAY_LDLIBS := -levent_core -lcurl -lcares -lunbound -lldns -lm $(LEDGER_LDLIBS) -lyaml

$(O)/cordon-gateway: $(GATEWAY_OBJ) $(GATEWAY_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(GATEWAY_OBJ) $(GATEWAY_LIBS) $(GATEWAY_LDLIBS)

# The same with identities from a file, for tests without a kernel's help; never installed.
$(O)/tests/cordon-gateway-test: $(GATEWAY_OBJ) $(O)/tests/gateway/identity_test.o $(O)/user/identity/packed.o $(GATEWAY_LIBS)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(GATEWAY_OBJ) $(O)/tests/gateway/identity_test.o $(O)/user/identity/packed.o \
		$(filter-out $(O)/libidentity.a,$(GATEWAY_LIBS)) $(GATEWAY_LDLIBS)

$(O)/tests/load: tests/bench/load.c Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -isystem /usr/include/postgresql -MMD -MP -MF $@.d $(ALL_LDFLAGS) -o $@ $< -lsqlite3 -lpq -lpthread

$(O)/cordon-gateway.8: $(O)/cordon-gateway
	$(call say,MAN,$@)
	$(Q)$(O)/cordon-gateway --print-man > $@

$(O)/cordon.1: $(O)/cordon
	$(call say,MAN,$@)
	$(Q)$(O)/cordon --print-man > $@

# --- tests -------------------------------------------------------------------------------------------------------

UNIT_WRAP_test_policy := $(shell sed -n 's/^ \* wrap: //p' tests/unit/test_policy.c 2>/dev/null)
UNIT_WRAP_test_object := -Wl,--wrap=close

UNIT_LIBS_test_cordond := $(filter-out $(CORDOND_WORDS) $(O)/user/cordond/main.o,$(call obj,cordond)) $(CORDOND_LIBS)
UNIT_LDLIBS_test_cordond := $(CORDOND_LDLIBS)
UNIT_LIBS_test_told := $(UNIT_LIBS_test_cordond)
UNIT_LDLIBS_test_told := $(CORDOND_LDLIBS)
UNIT_LIBS_test_head := $(O)/user/gateway/head.o
UNIT_LIBS_test_proxy := $(O)/user/gateway/head.o $(O)/user/proxy/hello.o $(O)/user/proxy/forward.o
UNIT_LIBS_test_resolver := $(O)/user/resolver/judge.o $(O)/user/resolver/cache.o
UNIT_LDLIBS_test_resolver := -lm
UNIT_LIBS_test_grant := $(GRANT_LIBS) -lcrypto
UNIT_LIBS_test_sink := $(SINK_LIBS)
UNIT_LDLIBS_test_sink := $(SINK_LDLIBS)
UNIT_LIBS_test_alert := $(ALERT_LIBS)
UNIT_LIBS_test_metrics := $(METRICS_LIBS)
UNIT_LDLIBS_test_metrics := $(METRICS_LDLIBS)
UNIT_LIBS_test_sink_net := $(SINK_LIBS)
UNIT_LDLIBS_test_sink_net := $(SINK_LDLIBS)
UNIT_LIBS_test_admin := $(GRANT_LIBS) $(LEDGER_LIBS) -lcrypto
UNIT_LIBS_test_refusal := $(O)/user/gateway/refusal.o $(GRANT_LIBS) $(LEDGER_LIBS) -lcrypto

$(O)/unit/test_head: $(O)/user/gateway/head.o
$(O)/unit/test_proxy: $(UNIT_LIBS_test_proxy)
$(O)/unit/test_refusal: $(O)/user/gateway/refusal.o
$(O)/unit/test_resolver: $(UNIT_LIBS_test_resolver)
$(O)/unit/test_cordond $(O)/unit/test_told: $(UNIT_LIBS_test_cordond)

$(O)/unit/%: tests/unit/%.c $(LIBS) $(GRANT_LIBS) $(ADMIN_LIBS) $(LEDGER_LIBS) $(SINK_LIBS) $(METRICS_LIBS) $(ALERT_LIBS) $(CORDOND_WORDS) $(filter-out $(O)/user/cordon/main.o,$(call obj,cordon)) Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $(ALL_LDFLAGS) $(UNIT_WRAP_$*) -o $@ $< \
		$(filter-out $(O)/user/cordon/main.o,$(call obj,cordon)) $(CORDOND_WORDS) $(ADMIN_LIBS) $(UNIT_LIBS_$*) $(LINK_LIBS) $(LDLIBS) $(UNIT_LDLIBS_$*) -lcmocka

CHECKED := -std=gnu11 -D_GNU_SOURCE -DCORDON_VERSION='"$(VERSION)"' -Iinclude -Iuser -g -O1 -fno-sanitize-recover=undefined \
	-Wno-gnu-variable-sized-type-not-at-end
FUZZ_SRC := $(foreach p,util reach conf chain control event policy gwconf identity grant mcp,$(call src,$(p))) user/sink/config.c \
	user/admin/protocol.c user/cordond/protocol.c user/cordon/oci.c user/cordon/suggest.c user/cordon/suggest_judge.c user/cordon/suggest_text.c \
	user/gateway/head.c user/gateway/input.c user/ledger/codes.c user/proxy/hello.c user/proxy/forward.c user/broker/filter.c user/broker/scrub.c \
	user/resolver/message.c user/resolver/judge.c
# Instrumented once, for all targets.
FUZZ_OBJ := $(FUZZ_SRC:user/%.c=$(O)/checked/%.o)
$(FUZZ_OBJ): $(O)/checked/%.o: user/%.c Makefile
	$(call say,CHECKED,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CHECKED) -fsanitize=fuzzer-no-link,address,undefined -MMD -MP -c $< -o $@

$(O)/fuzz/%: tests/fuzz/%.c $(FUZZ_OBJ) Makefile
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CHECKED) -fsanitize=fuzzer,address,undefined -MMD -MP -MF $@.d -o $@ $< $(FUZZ_OBJ) -lyaml -ljansson -lcrypto -lldns -lm

# What the kernel that runs it offers; for tests/coverage/coverage.
$(O)/tests/offers: tests/coverage/offers.c Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $(ALL_LDFLAGS) -o $@ $< -lbpf -lelf -lz

# 32-bit system calls, from a program of either size. No C library: there need be none for 32 bits.
$(O)/tests/compat%: tests/attack/compat.c Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -m$* -O1 $(WARN) -ffreestanding -fno-stack-protector -fno-pie -no-pie -nostdlib -static \
		-fno-asynchronous-unwind-tables -o $@ $<

# A container's command without anything before its first attack.
$(O)/tests/containers/first: tests/containers/first.c Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O1 $(WARN) -ffreestanding -fno-stack-protector -fno-pie -no-pie -nostdlib -static \
		-fno-asynchronous-unwind-tables -o $@ $<

# As they are packaged, for the guest.
$(O)/oci/%: packaging/oci/%
	$(Q)mkdir -p $(@D) && cp $< $@

# Properties of the decisions, as the kernel gets them; executed symbolically by tests/prove/symbolic.py.
$(O)/tests/properties.o: tests/prove/properties.bpf.c Makefile
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $@.d -c $< -o $@

$(O)/tests/image: tests/prove/image.c $(FUZZ_OBJ) Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CHECKED) -fsanitize=address,undefined -MMD -MP -MF $@.d -o $@ $< $(FUZZ_OBJ) -lyaml -ljansson -lcrypto -lldns -lm

# Optimised, without sanitizers: it asks some hundred million questions.
$(O)/tests/rules: tests/prove/rules.c $(O)/libpolicy.a $(O)/libreach.a $(O)/libconf.a $(O)/libutil.a Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $(ALL_LDFLAGS) -o $@ $< $(O)/libpolicy.a $(O)/libreach.a $(O)/libconf.a $(O)/libutil.a -lyaml

TOOLS := $(patsubst packaging/%,$(O)/%,$(wildcard packaging/oci/*)) $(O)/tests/containers/first $(O)/tests/offers $(O)/tests/compat32 $(O)/tests/compat64 $(O)/tests/properties.o $(O)/tests/image $(O)/tests/rules

# Programs that tests in the guest use: build/tests/DIR/NAME from tests/DIR/NAME.c.
HELPERS := $(O)/tests/identity/whois $(O)/tests/bench/fences $(O)/tests/bench/produce $(O)/tests/keep/owner $(O)/tests/race/enter
$(HELPERS): $(O)/tests/%: tests/%.c $(LIBS) Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $(ALL_LDFLAGS) -o $@ $< $(LINK_LIBS) $(LDLIBS)

# Least costs of an event; for tests/bench/events.
$(O)/tests/bench/bare.bpf.o: tests/bench/bare.bpf.c Makefile
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -mcpu=v3 -O2 -g -Iinclude $(addprefix -I,$(ARCH_INCLUDE)) -Wall -Wextra -Wno-unused-parameter \
		-Wno-gnu-variable-sized-type-not-at-end -MMD -MP -MF $@.d -c $< -o $@

# What an event costs the auditor.
$(O)/tests/bench/sinks: tests/bench/sinks.c $(SINK_LIBS) $(LIBS) Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $(ALL_LDFLAGS) -o $@ $< $(SINK_LIBS) $(LINK_LIBS) $(LDLIBS) $(SINK_LDLIBS)

# The same owner as it would be in another build: NEXT has one byte more of BPF object, REFUSED a program that no kernel
# takes, DEAF one hook that never denies.
OTHERS := next refused deaf
OTHER_next = :
OTHER_refused = sed -i '$$a SEC("lsm/file_open") int refused(void *ctx) { return *(int *)ctx == *(volatile int *)0; }' $(@D)/enforce.bpf.c;
OTHER_deaf = sed '/FENCE_HOOK(file_path_mkdir/,/^{/s/^{/{\n\tif (ret != 12345)\n\t\treturn ret;/' bpf/file.bpf.h > $(@D)/file.bpf.h;
$(O)/tests/keep/%/enforce.bpf.o: bpf/enforce.bpf.c $(wildcard bpf/*.h include/cordon/*.h) Makefile | toolchain
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ cat $<; echo 'const volatile int cordon_$* SEC(".rodata.$*") = 1;'; } > $(@D)/enforce.bpf.c
	$(Q)$(OTHER_$*)
	$(Q)$(CLANG) -I$(@D) $(BPF_CFLAGS) -MMD -MP -c $(@D)/enforce.bpf.c -o $@
	$(Q)$(BPFTOOL) gen skeleton $@ name cordon_enforce > $(@D)/enforce.skel.h

$(OTHERS:%=$(O)/tests/keep/owner-%): $(O)/tests/keep/owner-%: $(O)/tests/keep/%/enforce.bpf.o $(O)/tests/keep/owner $(O)/cgroup_only.skel.h
	$(call say,TEST,$@)
	$(Q)$(CC) $(filter-out -I$(O),$(ALL_CFLAGS)) -I$(O)/tests/keep/$* -I$(O) -c user/enforce/object.c -o $(O)/tests/keep/$*/object.o
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ tests/keep/owner.c $(O)/tests/keep/$*/object.o $(LINK_LIBS) $(LDLIBS)

# cordond with those objects.
$(OTHERS:%=$(O)/tests/keep/cordond-%): $(O)/tests/keep/cordond-%: $(O)/tests/keep/owner-% $(O)/cordond
	$(call say,TEST,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(call obj,cordond) $(O)/tests/keep/$*/object.o $(CORDOND_LIBS) $(LINK_LIBS) $(LDLIBS) $(CORDOND_LDLIBS)

$(O)/tests/keep/leak.so: tests/keep/leak.c Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) $(CFLAGS) -fPIC -shared -o $@ $< -ldl

# The ledger's tests and programs: build/ledger/NAME from tests/ledger/NAME.c and store.c.
LEDGER_WRAP_test_ledger := $(shell sed -n 's/^ \* wrap: //p' tests/ledger/test_ledger.c 2>/dev/null)
LEDGER_TESTS := $(patsubst tests/ledger/%.c,$(O)/ledger/%,$(filter-out %/store.c,$(wildcard tests/ledger/*.c)))
$(LEDGER_TESTS): $(O)/ledger/%: tests/ledger/%.c tests/ledger/store.c $(LEDGER_LIBS) $(O)/libutil.a Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/ledger -isystem /usr/include/postgresql -MMD -MP -MF $@.d $(ALL_LDFLAGS) \
		$(LEDGER_WRAP_$*) -o $@ $< tests/ledger/store.c $(LEDGER_LIBS) $(O)/libutil.a $(LEDGER_LDLIBS) -lcmocka

$(O)/race: tests/race/race.c include/cordon/abi.h include/cordon/tables.h Makefile
	$(call say,TEST,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $<

# It is executed some hundred thousand times: nothing but the kernel's part of that.
$(O)/tests/race/image: tests/race/image.c tests/race/enter.h Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) $(CFLAGS) -static -no-pie -pthread -o $@ $<

FUZZ_SECONDS ?= 120

# Programs that tests run in the guest: one file each.
GUEST := $(O)/attack/race $(O)/work/posix
$(GUEST): $(O)/%: tests/%.c Makefile
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) $(CFLAGS) -pthread -o $@ $<

.PHONY: tests
tests: all $(GUEST) $(UNIT) $(FUZZ) $(TOOLS) $(HELPERS) $(LEDGER_TESTS) $(O)/tests/cordon-gateway-test $(RACE)

.PHONY: test
test: deps ## everything that CI runs: lint, unit, fuzz smoke, VMs over the kernel matrix
	$(Q)$(MAKE) --no-print-directory $(JOBS) tests
	$(Q)tests/all

.PHONY: test-unit
test-unit: deps ## what needs no VM: lint, unit and golden tests, fuzz smoke
	$(Q)$(MAKE) --no-print-directory $(JOBS) tests
	$(Q)tests/all lint unit ledger fuzz

.PHONY: test-vm
test-vm: deps ## the integration tests in VMs
	$(Q)$(MAKE) --no-print-directory $(JOBS) tests
	$(Q)tests/all vm-selftest matrix negative

.PHONY: fuzz
fuzz: deps $(FUZZ) ## each fuzz target for FUZZ_SECONDS (120); finds stay in build/
	$(Q)for f in $(FUZZ); do mkdir -p $(O)/corpus/$${f##*_} && $$f -max_total_time=$(FUZZ_SECONDS) \
		-artifact_prefix=$(O)/ $(O)/corpus/$${f##*_} tests/fuzz/corpus/$${f##*_} || exit 1; done

.PHONY: prove
prove: deps ## what is proved rather than tested: tests/prove/*
	$(Q)$(MAKE) --no-print-directory $(O)/tests/properties.o $(O)/tests/image $(O)/tests/rules $(O)/fuzz/fuzz_decide
	$(Q)tests/prove/run

RACES_KERNELS ?= 6.1 newest
RACES_TRIES ?= 100000

.PHONY: races
races: deps ## races of paths, identity and network, RACES_TRIES (100,000) each, attach a tenth, on RACES_KERNELS (6.1 newest)
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(GUEST) $(RACE)
	$(Q)rc=0; for k in $(RACES_KERNELS); do for t in "race/run migrate flip exec born --tries" "race/run attach --tries" attack/races; do \
		tests/vm/run -k $$k --timeout 3000 -- tests/$$t $(RACES_TRIES) || rc=1; done; done; exit $$rc

KILLS_KERNEL ?= 6.12
KILLS_ROUNDS ?= 500

.PHONY: kills
kills: deps ## KILLS_ROUNDS (500) deaths, restarts and upgrades of cordond while attackers loop inside 20 fences, on KILLS_KERNEL (6.12)
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(O)/tests/keep/cordond-next
	$(Q)tests/vm/run -k $(KILLS_KERNEL) --timeout 14400 -- tests/daemon/kill $(KILLS_ROUNDS)

CONTAINERS_KERNEL ?= 6.1
CONTAINERS_TIMES ?= 200

.PHONY: containers
containers: deps ## CONTAINERS_TIMES (200) one-shot containers of podman (crun, runc, rootless) and Docker, on CONTAINERS_KERNEL (6.1)
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(TOOLS)
	$(Q)share=$$(tests/containers/layer) && tests/vm/run -k $(CONTAINERS_KERNEL) --share "$$share" --timeout 30000 -- \
		tests/containers/run --times $(CONTAINERS_TIMES)

UNITS_KERNEL ?= 6.12

.PHONY: units
units: deps deb ## the Debian package and its units under systemd, on UNITS_KERNEL (6.12)
	$(Q)share=$$(tests/units/root $(O)/cordon_$(VERSION)_amd64.deb) && tests/vm/run -k $(UNITS_KERNEL) --share "$$share" --timeout 1200 -- \
		tests/units/run

TOLD_KERNEL ?= 6.12

.PHONY: told
told: deps ## gateways' decisions in cordond's stream, also while cordond dies, on TOLD_KERNEL (6.12)
	$(Q)$(MAKE) --no-print-directory $(JOBS) all
	$(Q)tests/vm/run -k $(TOLD_KERNEL) --timeout 1200 -- tests/daemon/gateway

EGRESS_KERNELS ?= 6.1 newest

.PHONY: egress
egress: deps ## the forward proxy, the resolver and /up from inside real fences, on EGRESS_KERNELS (6.1 newest)
	$(Q)$(MAKE) --no-print-directory $(JOBS) all
	$(Q)rc=0; for k in $(EGRESS_KERNELS); do for t in egress/fence egress/resolve broker/fence; do \
		tests/vm/run -k $$k --timeout 1200 -- tests/$$t || rc=1; done; done; exit $$rc

KEEP_KERNELS ?= 6.1 newest
KEEP_ROUNDS ?= 50

.PHONY: keep
keep: deps ## owners of fences and upgrades, KEEP_ROUNDS (50) of each killed at random instants, on KEEP_KERNELS (6.1 newest)
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(HELPERS) $(foreach o,$(OTHERS),$(O)/tests/keep/owner-$(o) $(O)/tests/keep/cordond-$(o))
	$(Q)rc=0; for k in $(KEEP_KERNELS); do for t in "keep/run --rounds $(KEEP_ROUNDS)" "keep/upgrade --kills $(KEEP_ROUNDS)" daemon/upgrade; do \
		tests/vm/run -k $$k --timeout 3000 -- tests/$$t || rc=1; done; done; exit $$rc

CHURN_KERNEL ?= 6.12
CHURN_FENCES ?= 50000
CHURN_SECONDS ?= 3600

.PHONY: churn
churn: deps ## CHURN_FENCES (50,000) made and ended, or what CHURN_SECONDS (3,600) allow, and what 1,000 cost, on CHURN_KERNEL (6.12)
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(O)/tests/keep/leak.so
	$(Q)rc=0; for t in many "churn 400 300 --leak" "churn $(CHURN_FENCES) $(CHURN_SECONDS)"; do \
		tests/vm/run -k $(CHURN_KERNEL) --timeout $$(($(CHURN_SECONDS) + 900)) -- tests/keep/$$t || rc=1; done; exit $$rc

.PHONY: mutate
mutate: deps ## removes lines of enforcement, one by one, and sees that a test notices; an hour: tests/mutate/run
	$(Q)$(MAKE) --no-print-directory -j2 tests
	$(Q)tests/mutate/run

.PHONY: lint
lint: deps all ## clang-format, clang-tidy, cppcheck, shellcheck, layers
	$(Q)tests/lint/run

.PHONY: fmt
fmt: ## format all C files
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format -i

.PHONY: golden-update
golden-update: all ## write new expectations for the golden tests; look at the diff
	$(Q)tests/golden/run --update $(O)/cordon

.PHONY: bench
bench: deps ## instruction counts against peers, in VMs; writes build/bench.json
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(MAKE) --no-print-directory $(O)/ledger/bench $(O)/tests/bench/fences $(O)/tests/bench/produce $(O)/tests/bench/bare.bpf.o $(O)/tests/bench/sinks
	$(Q)tests/bench/run
	$(Q)d=$$(mktemp -d) && $(O)/tests/bench/sinks "$$d"; rmdir "$$d"
	$(Q)tests/keep/native tests/bench/events
	$(Q)tests/vm/run -k newest --timeout 1800 -- tests/bench/events
	$(Q)tests/bench/ledger
	$(Q)$(MAKE) --no-print-directory $(O)/tests/cordon-gateway-test $(O)/tests/load
	$(Q)tests/bench/gateway
	$(Q)tests/bench/proxy

.PHONY: demo
demo: ## the main job: an agent with and without a fence
	$(Q)packaging/deps demo
	$(Q)$(MAKE) --no-print-directory $(JOBS) all
	$(Q)demo/run

# --- the rest ----------------------------------------------------------------------------------------------------

.PHONY: deps
deps: ## install the packages that are missing (apt, root)
	$(Q)packaging/deps

.PHONY: install
install: all ## install below PREFIX (/usr), with DESTDIR
	install -D -m 755 $(O)/cordon $(DESTDIR)$(BINDIR)/cordon
	install -D -m 644 $(O)/cordon.1 $(DESTDIR)$(MANDIR)/man1/cordon.1
	install -D -m 755 $(O)/cordond $(DESTDIR)$(SBINDIR)/cordond
	install -D -m 644 $(O)/cordond.8 $(DESTDIR)$(MANDIR)/man8/cordond.8
	install -D -m 755 $(O)/cordon-gateway $(DESTDIR)$(SBINDIR)/cordon-gateway
	install -D -m 644 $(O)/cordon-gateway.8 $(DESTDIR)$(MANDIR)/man8/cordon-gateway.8
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/vendor-completions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(O)/cordon --print-completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/cordon
	$(O)/cordon --print-completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_cordon
	$(O)/cordon --print-completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cordon.fish
	for unit in cordon-gateway cordon-load cordond; do \
		sed 's|/usr/sbin/|$(SBINDIR)/|; s|/usr/bin/|$(BINDIR)/|' packaging/$$unit.service > $(DESTDIR)$(UNITDIR)/$$unit.service || exit 1; \
		chmod 644 $(DESTDIR)$(UNITDIR)/$$unit.service; \
	done
	install -d $(DESTDIR)$(HOOKSDIR) $(DESTDIR)$(LIBEXECDIR)
	for hook in 99-cordon-createRuntime 99-cordon-poststop; do \
		sed 's|/usr/bin/|$(BINDIR)/|' packaging/oci/$$hook.json > $(DESTDIR)$(HOOKSDIR)/$$hook.json || exit 1; \
		chmod 644 $(DESTDIR)$(HOOKSDIR)/$$hook.json; \
	done
	sed 's|/usr/bin/|$(BINDIR)/|; s|/usr/libexec/cordon/|$(LIBEXECDIR)/|' packaging/oci/cordon-runc > $(DESTDIR)$(LIBEXECDIR)/cordon-runc
	chmod 755 $(DESTDIR)$(LIBEXECDIR)/cordon-runc
	install -D -m 644 packaging/oci/daemon.json $(DESTDIR)$(DATADIR)/docker-daemon.json
	install -D -m 644 packaging/cordon.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/cordon.conf
	install -D -m 644 packaging/cordon.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/cordon.conf
	install -d $(DESTDIR)$(DATADIR)/policies
	install -d $(DESTDIR)$(DATADIR)/policies/tools
	install -m 644 policies/*.yaml policies/*.sql $(DESTDIR)$(DATADIR)/policies/
	install -m 644 policies/tools/*.yaml $(DESTDIR)$(DATADIR)/policies/tools/
	install -D -m 644 packaging/cordond.yaml $(DESTDIR)$(DATADIR)/cordond.yaml
	install -m 644 docs/event.schema.json packaging/cordon.rules.yml $(DESTDIR)$(DATADIR)/

.PHONY: deb
deb: ## the Debian package, build/cordon_VERSION_amd64.deb
	$(Q)packaging/deps deb
	$(Q)packaging/deb $(VERSION) $(O)

.PHONY: clean
clean: ## remove build/ and build-san/
	rm -rf build build-san

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sort | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

-include $(shell find $(O) -name '*.d' 2>/dev/null)
