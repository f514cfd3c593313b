-- SPDX-License-Identifier: Apache-2.0
-- The database of the worked example (tools/refund.yaml), with an order of each of two tenants: those that
-- `cordon verify` asks for. Amounts are minor units. sqlite3 FILE < orders.sql, or psql -f orders.sql URL
CREATE TABLE orders (
	id TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	amount_paid BIGINT NOT NULL,
	refunded BIGINT NOT NULL DEFAULT 0
);
INSERT INTO orders (id, tenant, amount_paid) VALUES ('o-1', 't-1', 10000), ('o-2', 't-2', 10000);
