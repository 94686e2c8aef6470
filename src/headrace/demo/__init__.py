"""The demo: a real Kafka, a stream of orders with bad ones among them, and a pipeline at work."""
