"""For tests of pipelines: run one on rows, crash it at a point, and a real Kafka for pytest.

    from headrace.testing import outcome

    def test_small_orders_are_dropped(spark):
        result = outcome("orders.yaml", [{"id": 1, "amount": 5}, {"id": 2, "amount": -1}], spark)
        assert [row["id"] for row in result.rows["sink"]] == [1]

The fixtures `spark`, `kafka_cluster`, `topic` and `database` (a PostgreSQL) are in
`headrace.testing.fixtures`.
"""

from headrace.testing.broker import kafka
from headrace.testing.crashes import Crash, crash_at
from headrace.testing.outcomes import Message, Outcome, outcome

__all__ = ["Crash", "Message", "Outcome", "crash_at", "kafka", "outcome"]
