CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders',
    type = 'source',
    'fetch.min.byte' = '1024',
    'key.deserializer' = 'com.example.Evil',
    'enable.auto.commit' = 'false',
    'fetch.max.wait.ms' = ('500', '600'),
    'linger.ms' = '5'
);
