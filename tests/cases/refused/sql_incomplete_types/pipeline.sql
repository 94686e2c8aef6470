CREATE TABLE orders (
    id DECIMAL(99),
    price DECIMAL(4, 6),
    length VARCHAR(many),
    tags ARRAY,
    counts MAP<TEXT>,
    parts STRUCT<sku>,
    more STRUCT<sku TEXT,
    name
) WITH ( connector = 'kafka' );
