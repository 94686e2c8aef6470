CREATE CONNECTION shop TO kafka (
    bootstrap_servers 'localhost:9092',
    topic = orders,
    format = 'json' type = 'source',
    group_id = ,
    trigger = INTERVAL '5 seconds',
    timeout = 30s,
    batch_size = 1e999,
    dlq_topic = NULL,
    topics = ('a', 'b'
    max_errors_per_batch = 10
);
