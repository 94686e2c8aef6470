CREATE TABLE orders (
    id BIGNT,
    name TXT,
    at TIMESTAP,
    price MONEY,
    count UINT64,
    total BIGINT UNSIGNED,
    noon TIME,
    kind ENUM('a', 'b'),
    tags ARRAY<STRNG>,
    parts STRUCT<sku TEXT, size NUMBER>
) WITH ( connector = 'kafka' );
