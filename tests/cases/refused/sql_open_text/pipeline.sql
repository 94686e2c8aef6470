CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092,
    topic = 'orders',
    format = 'json'
);
