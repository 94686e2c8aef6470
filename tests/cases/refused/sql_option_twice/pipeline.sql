CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders',
    'fetch.min.bytes' = 1,
    TOPIC = 'customers',
    'fetch.min.bytes' = 2
);
