// SPDX-License-Identifier: Apache-2.0
/*
 * See ocsf.h. Class and activity come from CORDON_OCSF_TYPES and CORDON_OCSF_OPS; what OCSF has no attribute for stands under
 * `unmapped` with the names that it has in cordon.event/1, so nothing is left out. No privilege.
 */
#include "event/ocsf.h"

#include <string.h>

#include "event/buffer.h"

#define CORDON_X(e, uid, name) [CORDON_TYPE_##e] = { uid, name },
static const struct {
	int uid;
	const char *name;
} classes[CORDON_TYPE_COUNT] = { CORDON_OCSF_TYPES(CORDON_X) };
#undef CORDON_X

#define CORDON_X(e, uid, name, id, activity) [CORDON_OP_##e] = { uid, name, id, activity },
static const struct {
	int uid;
	const char *name;
	int id;
	const char *activity;
} activities[CORDON_OP_COUNT] = { CORDON_OCSF_OPS(CORDON_X) };
#undef CORDON_X

enum { SEVERITY_INFORMATIONAL = 1, SEVERITY_LOW, SEVERITY_MEDIUM, SEVERITY_HIGH };
enum { ACTIVITY_OTHER = 99 };

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* Puts a value where there is one. Takes it over. */
static void put(json_t *object, const char *key, json_t *value)
{
	if (value && !json_is_null(value))
		json_object_set_new(object, key, value);
	else
		json_decref(value);
}

static void put_text(json_t *object, const char *key, const char *text)
{
	if (text[0])
		put(object, key, json_string(text));
}

/* The same value under another name. */
static void put_same(json_t *object, const char *key, const json_t *from, const char *member)
{
	put(object, key, json_incref(json_object_get(from, member)));
}

/* --- parts ----------------------------------------------------------------------------------------------------------- */

static json_t *metadata_make(const json_t *root)
{
	json_t *metadata = json_pack("{s:s, s:{s:s, s:s, s:s}, s:[s]}", "version", OCSF_VERSION,
				     "product", "name", "Cordon", "vendor_name", "Cordon",
				     "version", CORDON_VERSION, "profiles", "security_control");

	put_same(metadata, "sequence", root, "seq");
	put_same(metadata, "original_time", root, "time");
	put_text(metadata, "log_name", EVENT_SCHEMA);
	return metadata;
}

/* A file by its path; type unknown: the event does not say it. */
static json_t *file_make(const char *path)
{
	const char *slash = strrchr(path, '/');
	json_t *file = json_pack("{s:s, s:i}", "path", path, "type_id", 0);

	put_text(file, "name", slash && slash[1] ? slash + 1 : path);
	return file;
}

static json_t *process_make(const json_t *process)
{
	json_t *made = json_object();
	char number[24];

	put_same(made, "pid", process, "pid");
	put_same(made, "name", process, "comm");
	put_same(made, "tid", process, "tid");
	put_same(made, "uid", process, "exec_id");
	if (text_of(process, "exe")[0])
		put(made, "file", file_make(text_of(process, "exe")));
	snprintf(number, sizeof(number), "%lld",
		 (long long)json_integer_value(json_object_get(process, "uid")));
	put(made, "user", json_pack("{s:s}", "uid", number));
	if (json_is_integer(json_object_get(process, "ppid")))
		put(made, "parent_process",
		    json_pack("{s:O}", "pid", json_object_get(process, "ppid")));
	return made;
}

/* Who acted: a process, on behalf of whom the fence does. */
static json_t *actor_make(const json_t *root)
{
	const json_t *process = json_object_get(root, "process");
	const json_t *fence = json_object_get(root, "fence");
	json_t *actor = json_object();

	if (json_is_object(process))
		put(actor, "process", process_make(process));
	if (text_of(fence, "subject")[0])
		put(actor, "user", json_pack("{s:s}", "name", text_of(fence, "subject")));
	if (!json_object_size(actor))
		put_text(actor, "app_name", "cordon");
	return actor;
}

static json_t *endpoint_make(const json_t *net, const char *ip, const char *port)
{
	json_t *endpoint = json_object();

	put_same(endpoint, "ip", net, ip);
	put_same(endpoint, "port", net, port);
	return endpoint;
}

static void net_put(json_t *out, const json_t *net, const char *op)
{
	json_t *connection = json_object();
	json_t *to = endpoint_make(net, "dst", "dport"), *from = endpoint_make(net, "src", "sport");

	if (text_of(net, "unix")[0])
		put_text(to, "name", text_of(net, "unix"));
	put(out, "dst_endpoint", to);
	if (json_object_size(from))
		put(out, "src_endpoint", from);
	else
		json_decref(from);
	put_text(connection, "protocol_name", text_of(net, "proto"));
	put(connection, "direction_id", json_integer(strcmp(op, "inbound") == 0 ? 1 : 2));
	put(out, "connection_info", connection);
}

/* What the class asks for besides. */
static void class_put(json_t *out, int class, const json_t *root)
{
	const json_t *file = json_object_get(root, "file");
	const json_t *gateway = json_object_get(root, "gateway");
	const char *op = text_of(root, "op");

	if (class == 1001)
		put(out, "file", file_make(text_of(file, "path")));
	if (class == 1001 && text_of(file, "path2")[0])
		put(out, "file_result", file_make(text_of(file, "path2")));
	if (class == 1003)
		put(out, "kernel",
		    json_pack("{s:s, s:i, s:s}", "name", op, "type_id", 99, "type", op));
	if (class == 1007 && json_is_object(file))
		put(out, "process", json_pack("{s:o}", "file", file_make(text_of(file, "path"))));
	else if (class == 1007)
		put(out, "process",
		    json_pack("{s:I}", "pid",
			      json_integer_value(json_object_get(json_object_get(root, "guard"),
								 "target_pid"))));
	if (class == 4001)
		net_put(out, json_object_get(root, "net"), op);
	if (class == 2004)
		put(out, "finding_info",
		    json_pack("{s:s, s:s+}", "title", text_of(root, "rule"), "uid",
			      text_of(json_object_get(root, "fence"), "id"), op));
	if (class == 6002)
		put(out, "app", json_pack("{s:s, s:s}", "name", "Cordon", "vendor_name", "Cordon"));
	if (class == 6003) {
		put(out, "api",
		    json_pack("{s:s}", "operation",
			      text_of(gateway, "action")[0] ? text_of(gateway, "action") : op));
		put(out, "src_endpoint",
		    json_pack("{s:s}", "uid", text_of(json_object_get(root, "fence"), "id")));
		if (text_of(gateway, "object")[0])
			put(out, "resources",
			    json_pack("[{s:s}]", "name", text_of(gateway, "object")));
	}
}

/* Everything that has no place above. */
static json_t *unmapped_make(const json_t *root)
{
	static const char *const mapped[] = { "schema", "node",	 "time",   "seq",   "process",
					      "net",	"count", "detail", "errno", "chain" };
	json_t *unmapped = json_copy((json_t *)(uintptr_t)root);

	for (size_t i = 0; unmapped && i < ARRAY_SIZE(mapped); i++)
		json_object_del(unmapped, mapped[i]);
	return unmapped;
}

static int severity(const json_t *root, int type)
{
	const char *verdict = text_of(root, "verdict");

	if (strcmp(text_of(root, "op"), "broken") == 0 || type == CORDON_TYPE_LOSS)
		return SEVERITY_HIGH;
	if (type == CORDON_TYPE_LIMIT || strcmp(verdict, "deny") == 0)
		return SEVERITY_MEDIUM;
	return strcmp(verdict, "would_deny") == 0 ? SEVERITY_LOW : SEVERITY_INFORMATIONAL;
}

/* Allowed, Blocked, or Logged: it would have been. */
static void verdict_put(json_t *out, const json_t *root)
{
	const char *verdict = text_of(root, "verdict");
	bool denied = strcmp(verdict, "deny") == 0;

	put(out, "action_id", json_integer(denied ? 2 : 1));
	put(out, "disposition_id",
	    json_integer(denied				      ? 2
			 : strcmp(verdict, "would_deny") == 0 ? 17
							      : 1));
	put(out, "status_id", json_integer(denied ? 2 : 1));
	put_text(out, "status_detail", text_of(root, "errno"));
	put(out, "firewall_rule", json_pack("{s:s}", "name", text_of(root, "rule")));
	put(out, "policy",
	    json_pack("{s:s}", "name", text_of(json_object_get(root, "fence"), "policy")));
}

/* --- the line -------------------------------------------------------------------------------------------------------- */

static json_t *event_make_ocsf(const json_t *root)
{
	int type = event_type_find(text_of(root, "type")), op = event_op_find(text_of(root, "op"));
	bool known = op >= 0 && activities[op].uid;
	int class = known ? activities[op].uid : type >= 0 ? classes[type].uid : 0;
	int activity = known ? activities[op].id : ACTIVITY_OTHER;
	const char *name = known       ? activities[op].name
			   : type >= 0 ? classes[type].name
				       : "Base Event";
	json_t *out = json_object();
	uint64_t ns = 0;

	event_parse_time(text_of(root, "time"), &ns);
	put(out, "metadata", metadata_make(root));
	put(out, "time", json_integer((json_int_t)(ns / 1000000)));
	put(out, "category_uid", json_integer(class / 1000));
	put(out, "class_uid", json_integer(class));
	put_text(out, "class_name", name);
	put(out, "activity_id", json_integer(activity));
	put_text(out, "activity_name", known ? activities[op].activity : text_of(root, "op"));
	put(out, "type_uid", json_integer(class * 100 + activity));
	put(out, "severity_id", json_integer(severity(root, type)));
	verdict_put(out, root);
	put_same(out, "count", root, "count");
	put_same(out, "message", root, "detail");
	put(out, "device",
	    json_pack("{s:s, s:i}", "hostname", text_of(root, "node"), "type_id", 0));
	put(out, "actor", actor_make(root));
	class_put(out, class, root);
	put(out, "unmapped", unmapped_make(root));
	return out;
}

/* Into the line, with room for a newline. Returns the length, 0: it does not fit. */
static size_t dump(const json_t *event, char *line, size_t flags)
{
	size_t n = json_dumpb(event, line, EVENT_LINE_MAX - 1, JSON_COMPACT | flags);

	return n < EVENT_LINE_MAX ? n : 0;
}

size_t event_ocsf_format(char ret_line[EVENT_LINE_MAX], const json_t *root)
{
	json_t *event = event_make_ocsf(root);
	size_t n = event ? dump(event, ret_line, 0) : 0;

	if (event && !n) { /* only names at their longest come to this */
		json_object_del(event, "unmapped");
		n = dump(event, ret_line, 0);
	}
	/* What came from a file may hold what acts on a terminal. */
	if (n && event_text_is_unsafe(ret_line, n)) {
		n = dump(event, ret_line, JSON_ENSURE_ASCII);
		for (size_t i = 0; i < n; i++)
			if (ret_line[i] == 0x7f)
				ret_line[i] = '?';
	}
	json_decref(event);
	if (n)
		ret_line[n++] = '\n';
	return n;
}
