/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the Model Context Protocol (modelcontextprotocol.io, revisions 2025-06-18 and 2025-11-25): one JSON-RPC
 * message read strictly, and answers printed. Pure: no I/O, no tools, no state. Messages come from fences: sizes and nesting
 * are bounded before the parser sees them, and what has two readings is refused.
 */
#ifndef CORDON_MCP_H
#define CORDON_MCP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define MCP_DEPTH_MAX 16 /* brackets inside one another in a message */
#define MCP_ID_MAX 128	 /* bytes of an id that is a string */

/* Codes of JSON-RPC. */
enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_METHOD_NOT_FOUND = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL_ERROR = -32603,
	MCP_REFUSED = -32000, /* by the transport: session, origin, version, caller */
};

enum mcp_kind {
	MCP_FAULT,	  /* no message: code and reason say why */
	MCP_REQUEST,	  /* wants an answer with its id */
	MCP_NOTIFICATION, /* wants none */
	MCP_RESPONSE,	  /* to something that was never asked here; wants none */
};

/* One message. All but root points into it. */
struct mcp_message {
	json_t *root; /* owned */
	enum mcp_kind kind;
	const json_t *
		id; /* of a request: a string or an integer; of a fault: NULL or the id that could be read */
	const char *method;
	json_t *params; /* an object, or NULL */
	enum mcp_code code;
	const char *reason; /* constant text without bytes of the message */
};

/* Reads body[0..size). mcp_message_release() in every case. */
void mcp_message_read(const char *body, size_t size, struct mcp_message *ret_message);
void mcp_message_release(struct mcp_message *message);

/* The revision that is spoken: that of the client where it is known here, else the newest. Constant text. */
const char *mcp_version_choose(const char *asked);
/* Is text[0..size) the name of a revision that is spoken here? */
bool mcp_version_known(const char *text, size_t size);

/*
 * The params of tools/call. Returns true, or false with *ret_reason, a constant text. *ret_arguments is an object, borrowed,
 * or NULL where none are given.
 */
bool mcp_call_read(const struct mcp_message *message, const char **ret_name, json_t **ret_arguments,
		   const char **ret_reason);

/* Does the value of an Accept header (NULL: there is none) take JSON? */
bool mcp_accepts_json(const char *text, size_t size);

/*
 * Answers as text, to be freed; NULL when memory ends. id is borrowed, NULL: null. result and data are taken over in every
 * case; a result of NULL counts as memory that ended; data may be NULL.
 */
char *mcp_print_result(const json_t *id, json_t *result);
char *mcp_print_error(const json_t *id, enum mcp_code code, const char *text, json_t *data);

/*
 * The result of tools/call from the answer of the gateway, a JSON object as text: as structured content and as text, behind
 * note where one is given. NULL when memory ends.
 */
json_t *mcp_call_result(const char *answer, size_t size, const char *note, bool is_error);

#endif
