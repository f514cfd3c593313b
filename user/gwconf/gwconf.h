/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's configuration and its tools (DESIGN 3.6): YAML text -> validated model. Knows no
 * sockets, no storage and no HTTP; opens no files but those that it is told to load. Every fault of
 * a text is found at once; a text with a fault gives no model. Models are constant once made.
 */
#ifndef CORDON_GWCONF_H
#define CORDON_GWCONF_H

#include <netinet/in.h>

#include "conf/read.h"
#include "util/util.h"

/* docs/limits.md lists these. */
#define GWCONF_FIELDS_MAX 16 /* members of a tool's input */
#define GWCONF_TEXT_MAX 4096 /* characters of one text of an input */
#define GWCONF_TOOLS_MAX 256
#define GWCONF_ROUTES_MAX 8
#define GWCONF_RESULT_MAX 32
#define GWCONF_PARAMS_MAX 32 /* parameters of one SQL statement */
#define GWCONF_ENUM_MAX 64
#define GWCONF_PATTERN_ATOMS 32
#define GWCONF_LISTEN_MAX 16
#define GWCONF_KEYS_MAX 8
#define GWCONF_UPSTREAMS_MAX 64
#define GWCONF_SCOPES_MAX 16 /* of one upstream */
#define GWCONF_PATHS_MAX 32  /* of one scope of an upstream */
#define GWCONF_NAMESERVERS_MAX 4
#define GWCONF_DNS_MAX 4

/* --- input ------------------------------------------------------------------------------------ */

enum gwconf_type { GWCONF_STRING, GWCONF_INTEGER, GWCONF_BOOLEAN };

/* A pattern: atoms one after another, anchored at both ends. Matches in time linear in the text. */
struct gwconf_pattern {
	struct {
		uint8_t set[32]; /* bit per byte */
		uint16_t min, max;
	} atom[GWCONF_PATTERN_ATOMS];
	size_t n;
};

/* One member of the input. */
struct gwconf_field {
	char *name;
	char *doc;	   /* or NULL */
	unsigned int type; /* enum gwconf_type */
	bool required;
	long long min, max;		  /* of an integer */
	long long min_length, max_length; /* of a string, in characters */
	struct conf_strings words;	  /* enum of a string; n 0: any */
	long long *numbers;		  /* enum of an integer, owned */
	size_t n_numbers;
	char *pattern_text; /* or NULL */
	struct gwconf_pattern pattern;
	struct conf_mark mark;
};

/* Does all of text match? */
bool gwconf_pattern_matches(const struct gwconf_pattern *pattern, const char *text, size_t size);

/* Reads ^...$ of literals, [classes], \d \w \. and the quantifiers ? + * {n} {n,m}. */
int gwconf_pattern_parse(const char *text, struct gwconf_pattern *ret_pattern, struct error *error);

/* --- SQL -------------------------------------------------------------------------------------- */

/* One statement with named parameters, `:name`. */
struct gwconf_sql {
	char *text;
	char *param[GWCONF_PARAMS_MAX]; /* each name once */
	size_t n_params;
	struct conf_mark mark;
};

/*
 * Names that every statement may use: tenant, subject, task of the caller; object, amount and key of
 * the call; call, its number. Ends with NULL.
 */
extern const char *const gwconf_sql_names[];

/* Finds the parameters of text. Returns 0, -EINVAL with error set, or -ENOMEM. */
int gwconf_sql_parse(const char *text, struct gwconf_sql *ret_sql, struct error *error);
void gwconf_sql_release(struct gwconf_sql *sql);

/* --- tools ------------------------------------------------------------------------------------ */

enum gwconf_over { GWCONF_OVER_APPROVE, GWCONF_OVER_REFUSE };
enum gwconf_per { GWCONF_PER_TENANT, GWCONF_PER_SUBJECT };
enum gwconf_executor { GWCONF_EXEC_SQL, GWCONF_EXEC_HTTP };
enum gwconf_method { GWCONF_POST, GWCONF_PUT, GWCONF_PATCH, GWCONF_DELETE };
extern const char *const gwconf_methods[]; /* in the order of the enum, ends with NULL */

/* Where a secret comes from; the model never holds it. */
struct gwconf_secret {
	char *file; /* one of the two */
	char *env;
};

struct gwconf_tool {
	char *name;
	char *doc;		    /* or NULL */
	char *path;		    /* of the file */
	struct conf_strings routes; /* besides /tools/NAME */
	char *scope;

	struct gwconf_field *fields; /* owned */
	size_t n_fields;

	/* Indexes into fields; -1: none. */
	int tenant, object, amount, key;

	struct gwconf_sql
		fact; /* with object: gives `tenant`, and `remaining` where there is an amount */

	bool has_single, has_daily;
	long long single, daily;
	unsigned int over;	   /* enum gwconf_over */
	unsigned int per;	   /* enum gwconf_per */
	long long approval_ttl_ms; /* 0: that of the configuration */

	unsigned int executor;	     /* enum gwconf_executor */
	struct gwconf_sql statement; /* of sql: what is done; what it returns is the result */
	char *upstream;		     /* of http: name in the configuration */
	unsigned int method;
	char *target;		  /* path on the upstream */
	struct conf_strings body; /* members of the input that are sent as JSON */
	char *key_header;	  /* in which the upstream gets the key; or NULL */
	long long timeout_ms;
	char *credential_header; /* NULL: none */
	char *credential_prefix; /* or NULL */
	struct gwconf_secret credential;

	bool destructive; /* what it does takes something away: counts for cordond's alert */
	struct conf_strings result; /* the fields that may go back */
};

/* Index of the member in tool->fields, or -1. */
int gwconf_tool_field(const struct gwconf_tool *tool, const char *name);

/*
 * Reads a tool. Returns 0 and *ret_tool (gwconf_tool_free), -EINVAL with faults, -ENOMEM, or for
 * _load -errno of the file. faults must be empty; conf_faults_clear() it in every case.
 */
int gwconf_tool_parse(const char *text, size_t length, const char *path,
		      struct gwconf_tool **ret_tool, struct conf_faults *faults);
int gwconf_tool_load(const char *path, struct gwconf_tool **ret_tool, struct conf_faults *faults);
void gwconf_tool_free(struct gwconf_tool *tool); /* takes NULL */

/* --- configuration ---------------------------------------------------------------------------- */

struct gwconf_listen {
	char *text;   /* as given */
	char *socket; /* path of a unix socket, or NULL */
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr;
	socklen_t addr_length;
	struct conf_mark mark;
};

enum gwconf_engine { GWCONF_SQLITE, GWCONF_POSTGRESQL };

/* A database. */
struct gwconf_store {
	unsigned int engine; /* enum gwconf_engine */
	char *url;	     /* as given; may hold a password: never shown */
};

enum gwconf_key_use { GWCONF_KEY_VERIFY, GWCONF_KEY_SIGN };

/* A key for grants. */
struct gwconf_key {
	char *id;
	char *file; /* PEM: private for sign, public for verify */
	unsigned int use;
	struct conf_mark mark;
};

/* Methods that fences may use on upstreams: a bit each, in the order of gwconf_up_methods, which ends with NULL. */
extern const char *const gwconf_up_methods[];

/* How often what a scope opens may be done: as often as asked, or once for each key or each grant. */
enum gwconf_once { GWCONF_ONCE_NOT, GWCONF_ONCE_KEY, GWCONF_ONCE_GRANT };

/* What one scope opens of an upstream. */
struct gwconf_access {
	char *scope;
	unsigned int once;	   /* enum gwconf_once */
	unsigned int methods;	   /* bits */
	struct conf_strings paths; /* patterns: see gwconf_path_matches() */
	struct conf_mark mark;
};

/* On whose behalf the gateway speaks: which credential is shown, and whether the upstream is told for whom. */
#define GWCONF_SUBJECT_HEADER "Cordon-On-Behalf-Of" /* unless subject_header names another */
enum gwconf_subject { GWCONF_ON_BEHALF_OF, GWCONF_SERVICE };

/* How the credential is shown, and where it comes from: one of each. */
struct gwconf_credential {
	char *header, *prefix; /* prefix may be NULL */
	char *query;	       /* parameter of the query */
	char *basic;	       /* user of basic authentication; the secret is the password */
	struct {
		char *token_url, *client, *scope; /* scope may be NULL */
	} oauth; /* the secret is the client's; what it gets is a bearer token */
	struct {
		char *region, *service;
	} sigv4; /* the secret is KEY-ID:SECRET-KEY */

	struct gwconf_secret source; /* file or env */
	char *systemd;		     /* name below $CREDENTIALS_DIRECTORY */
	struct {
		char *url, *path, *field, *token_file, *ca; /* ca may be NULL */
	} vault;

	/* What one fence has of it: so many requests, for so long after its first; 0: no end. */
	long long uses, lifetime_ms;
};

struct gwconf_upstream {
	char *name;
	char *url; /* http[s]://host[:port][/path], without a slash at its end */
	char *ca;  /* PEM file, or NULL: the system's */
	struct conf_mark mark;

	/* What follows is for /up/NAME; without scopes no fence reaches it there. */
	struct gwconf_access access[GWCONF_SCOPES_MAX];
	size_t n_access;
	unsigned int subject; /* enum gwconf_subject */
	char *subject_header; /* NULL: GWCONF_SUBJECT_HEADER */
	bool has_credential;
	struct gwconf_credential credential;
	struct {
		char *file, *prefix; /* file NULL: none; prefix may be NULL */
	} canary;
	struct conf_strings headers; /* of requests, let through besides those that always are */
	long long request_bytes, answer_bytes, timeout_ms;
};

/*
 * Does path, which has one spelling (head.h), match the pattern? A part of the pattern that is `*` matches any one part that is
 * not empty, `**` at its end the rest, if any; all else is compared byte by byte.
 */
bool gwconf_path_matches(const char *pattern, const char *path, size_t size);

/* May the name be that of a header that upstreams get from fences? Not those that frame, route or authenticate. */
bool gwconf_header_may_pass(const char *name, size_t size);

struct gwconf {
	char *path; /* of the file */
	struct gwconf_listen listen[GWCONF_LISTEN_MAX];
	size_t n_listen;
	char *node; /* NULL: the host's name */
	char *admin;
	char *events; /* `cordond`, `cordond:PATH`, `-`, or a path: file or socket */
	long long approval_ttl_ms;
	long long connections, header_bytes, headers, body_bytes;
	long long idle_ms, request_ms;
	long long drain_ms;
	long long rate, burst; /* requests of one caller: a second, and at once */
	long long tunnels;     /* connections of one fence through the proxy */
	long long dial_ms, tunnel_idle_ms;
	char *nameservers; /* ADDRESS:PORT, separated by commas, as c-ares takes them; NULL: the system's */
	struct gwconf_listen dns[GWCONF_DNS_MAX]; /* where the resolver is asked; never a socket */
	size_t n_dns;
	long long dns_queries; /* of one fence a second; twice as many at once */
	long long dns_names; /* of one fence, that it did not ask for lately, below `*.`, at once */
	long long workers;   /* threads that serve connections */
	long long executors; /* threads that call upstreams */
	long long streams;   /* threads that pass answers of upstreams on */
	long long key_ttl_ms; /* how long keys are kept */
	struct gwconf_key keys[GWCONF_KEYS_MAX];
	size_t n_keys;
	struct gwconf_store store, facts; /* facts.url NULL: the store */
	char *anchor;			  /* file that remembers the last record; or NULL */
	struct gwconf_upstream upstreams[GWCONF_UPSTREAMS_MAX];
	size_t n_upstreams;
	struct conf_strings tool_files; /* as given */
	struct gwconf_tool *tools[GWCONF_TOOLS_MAX];
	struct conf_mark tool_marks[GWCONF_TOOLS_MAX]; /* where the configuration names each */
	size_t n_tools;
};

/* Faults of one file. */
struct gwconf_report {
	char *path;
	int r; /* -EINVAL: see faults; another -errno: the file cannot be read */
	struct conf_faults faults;
};

struct gwconf_reports {
	struct gwconf_report *v; /* owned */
	size_t n;
};
void gwconf_reports_free(struct gwconf_reports *reports);
void gwconf_reports_print(const struct gwconf_reports *reports, FILE *out);

/* Reads the configuration alone: its tools are named, not loaded. As gwconf_tool_parse(). */
int gwconf_parse(const char *text, size_t length, const char *path, struct gwconf **ret_conf,
		 struct conf_faults *faults);

/*
 * The same, but with faults (-EINVAL) *ret_conf is what could be read: to find the tools, not to be used.
 */
int gwconf_parse_whole(const char *text, size_t length, const char *path, struct gwconf **ret_conf,
		       struct conf_faults *faults);

/*
 * Reads a configuration and all of its tools, whose paths count from the configuration's directory, and
 * judges them together: names and routes once, upstreams that exist. Returns 0 or -EINVAL with at least
 * one report, or -ENOMEM. gwconf_reports_free() in every case.
 */
int gwconf_load(const char *path, struct gwconf **ret_conf, struct gwconf_reports *reports);
void gwconf_free(struct gwconf *conf); /* takes NULL */

const struct gwconf_upstream *gwconf_find_upstream(const struct gwconf *conf, const char *name);

/* --- what a file is --------------------------------------------------------------------------- */

enum gwconf_kind { GWCONF_KIND_POLICY, GWCONF_KIND_TOOL, GWCONF_KIND_CONFIG };

/* Guesses by the keys at the top of a text; GWCONF_KIND_POLICY when nothing speaks for another. */
enum gwconf_kind gwconf_kind_of(const char *text, size_t length);

/* Prints the keys as Markdown tables: docs/gateway.md. */
void gwconf_print_config_keys(FILE *out);
void gwconf_print_tool_keys(FILE *out);

#endif
