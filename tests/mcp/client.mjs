// SPDX-License-Identifier: Apache-2.0
//
// client - an agent that knows nothing of Cordon: the official SDK's client with its defaults.
//
// usage: node client.mjs URL TENANT OTHER-TENANT        exit 0: all as expected; 7: it could not connect
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, tenant, other] = process.argv.slice(2);
const client = new Client({ name: 'cordon-test', version: '1.0.0' });
const transport = new StreamableHTTPClientTransport(new URL(url));

try {
	await client.connect(transport);
} catch (error) {
	console.log(`no connection: ${error.code ?? ''} ${error.message}`);
	process.exit(7);
}
assert.equal(client.getServerVersion().name, 'cordon-gateway');
assert.deepEqual(client.getServerCapabilities(), { tools: {} });
assert.match(client.getInstructions(), /idempotency/);
assert.equal(transport.sessionId, undefined);
await client.ping();

const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ['refund', 'free']);
const order = (of) => `o-${of}-1`;
const call = async (name, amount, key, of = tenant) =>
	client.callTool({
		name,
		arguments: { tenant: of, order_id: order(of), amount, idempotency_key: key },
	});

const first = await call('refund', 700, 'sdk-1');
assert.equal(first.isError, false);
assert.equal(first.structuredContent.status, 'ok');
assert.equal((await call('refund', 700, 'sdk-1')).structuredContent.status, 'duplicate');

const refused = await call('refund', 700, 'sdk-2', other);
assert.equal(refused.isError, true);
assert.equal(refused.structuredContent.error, 'tenant_mismatch');
assert.equal(refused.structuredContent.retry, 'never');
assert.match(refused.content[0].text, /tenant/);

const held = await call('refund', 20000, 'sdk-3');
assert.equal(held.structuredContent.status, 'pending_approval');
await assert.rejects(client.callTool({ name: 'nothing', arguments: {} }), /no such tool/);
await assert.rejects(client.listResources(), (error) => error.code === -32601);

// Several at once over the connections that the client likes to hold.
const many = await Promise.all(Array.from({ length: 20 }, () => call('refund', 700, 'sdk-1')));
assert.ok(many.every((answer) => answer.structuredContent.status === 'duplicate'));
await client.close();
console.log('done');
