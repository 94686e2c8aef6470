CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    topc = 'orders',
    batch_size = 'many',
    bad_data = 'keep',
    type = 'source'
);
CREATE CONNECTION out TO kafka ( bootstrap_server = 'localhost:9092', topic = 'out', offset = 'latest', type = 'sink' );
CREATE TABLE tables ( id BIGINT ) WITH ( connector = 'delta', pth = 'tables/orders' );
