CREATE TABLE orders (
    id BIGINT PRIMARY KEY,
    name TEXT DEFAULT 'nobody',
    place INT METADATA FROM 'partition',
    email TEXT UNIQUE,
    shop TEXT COMMENT 'where it was bought',
    price DOUBLE NOTNULL,
    PRIMARY KEY (id),
    CONSTRAINT positive CHECK (price > 0)
) WITH ( connector = 'kafka' );
