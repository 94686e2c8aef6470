CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    bootstrap_server = 'localhost:9093',
    'group.id' = 'a',
    group_id = 'b',
    topic = 'orders'
);
