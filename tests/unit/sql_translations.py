"""SQL as PostgreSQL and Arroyo have it, what becomes of it, and what Spark makes of that.

Read without Spark by `test_sql_dialect.py`, and run by `tests/spark/test_sql_dialect.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

# The table that every query reads, and its column of time.
TABLE = """
SELECT 7L AS id, 'seven' AS name, timestamp'2026-01-01 00:00:10.5' AS at,
       timestamp'2026-01-01 00:01:00' AS later, date'2026-01-02' AS day,
       '{"k": [1, 2]}' AS doc_text,
       parse_json('{"a": {"b": [1, {"c": "x"}]}, "s": "t", "o d": 2, "n": null}') AS doc,
       array(1, 2) AS items, array(named_struct('p', 1, 'q', 'z')) AS parts
"""
TIMES = {"t": "at"}


@dataclass(frozen=True)
class Translation:
    sql: str
    spark: str
    rows: list[tuple[object, ...]]


def unchanged(sql: str, rows: list[tuple[object, ...]]) -> Translation:
    return Translation(sql, sql, rows)


def moment(minute: int, second: int) -> datetime:
    return datetime(2026, 1, 1, 0, minute, second)


TRANSLATIONS = (
    # Types
    Translation(
        "SELECT id::TEXT, CAST(id AS TEXT), name::bytea FROM t",
        "SELECT id::STRING, CAST(id AS STRING), name::BINARY FROM t",
        [("7", "7", bytearray(b"seven"))],
    ),
    Translation(
        "SELECT CAST(items AS TEXT[]), id::double precision, CAST(name AS CHARACTER VARYING(9)) "
        "FROM t",
        "SELECT CAST(items AS ARRAY<STRING>), id::DOUBLE, CAST(name AS STRING) FROM t",
        [(["1", "2"], 7.0, "seven")],
    ),
    Translation(
        "SELECT '2026-01-01 00:00:00'::TIMESTAMP WITH TIME ZONE, TRY_CAST(name AS INT8), id::INT4 "
        "FROM t",
        "SELECT '2026-01-01 00:00:00'::TIMESTAMP, TRY_CAST(name AS BIGINT), id::INT FROM t",
        [(moment(0, 0), None, 7)],
    ),
    Translation(
        "SELECT at > TIMESTAMPTZ '2026-01-01' AS later FROM t",
        "SELECT at > TIMESTAMP '2026-01-01' AS later FROM t",
        [(True,)],
    ),
    # JSON
    Translation(
        "SELECT doc->>'s', doc -> 'a' -> 'b' ->> 0, t.doc->'a'->'b'->1->>'c', doc->>'n' FROM t",
        "SELECT variant_get(doc, '$.s', 'string'), variant_get(doc, '$.a.b[0]', 'string'), "
        "variant_get(t.doc, '$.a.b[1].c', 'string'), variant_get(doc, '$.n', 'string') FROM t",
        [("t", "1", "x", None)],
    ),
    Translation(
        "SELECT (doc->>'o d')::int + doc->>'o d'::INT4, (doc->'a')->>'b', "
        "coalesce(doc->>'none', 'no') FROM t",
        "SELECT (variant_get(doc, '$[\"o d\"]', 'string'))::int + "
        "variant_get(doc, '$[\"o d\"]', 'string')::INT, "
        "variant_get((variant_get(doc, '$.a')), '$.b', 'string'), "
        "coalesce(variant_get(doc, '$.none', 'string'), 'no') FROM t",
        [(4, '[1,{"c":"x"}]', "no")],
    ),
    Translation(
        "SELECT doc_text::json->'k'->>1, CAST(doc_text AS JSONB)->>'k', "
        "TRY_CAST(name AS JSON) IS NULL, JSON '{\"a\": 5}' ->> 'a' FROM t",
        "SELECT variant_get(parse_json(doc_text), '$.k[1]', 'string'), "
        "variant_get(parse_json(doc_text), '$.k', 'string'), "
        "try_parse_json(name) IS NULL, variant_get(parse_json( '{\"a\": 5}'), '$.a', 'string') "
        "FROM t",
        [("2", "[1,2]", True, "5")],
    ),
    Translation(
        "SELECT doc:a.b[0]::TEXT, doc:s::string, doc:a:b[1].c::TEXT FROM t",
        "SELECT doc:a.b[0]::STRING, doc:s::string, doc:a:b[1].c::STRING FROM t",
        [("1", "t", "x")],
    ),
    Translation(
        "SELECT transform(items, x -> x + 1), transform(items, x -> 'a'), "
        "aggregate(items, 0, (sum, x) -> sum + x), transform(items, x -> x::TEXT), "
        "transform(array(doc), d -> d->>'s'), "
        "transform(items, x -> '[5]'::json ->> 0) FROM t",
        "SELECT transform(items, x -> x + 1), transform(items, x -> 'a'), "
        "aggregate(items, 0, (sum, x) -> sum + x), transform(items, x -> x::STRING), "
        "transform(array(doc), d -> variant_get(d, '$.s', 'string')), "
        "transform(items, x -> variant_get(parse_json('[5]'), '$[0]', 'string')) FROM t",
        [([2, 3], ["a", "a"], 3, ["1", "2"], ["t"], ["5", "5"])],
    ),
    # Times
    Translation(
        "SELECT EXTRACT(EPOCH FROM at), EXTRACT(EPOCH FROM (later - at)), "
        "EXTRACT(EPOCH FROM at - INTERVAL '1 hour'), date_part('epoch', day), "
        "EXTRACT(YEAR FROM at) FROM t",
        "SELECT CAST(CAST(at AS TIMESTAMP) AS DOUBLE), "
        "CAST(CAST(CAST((later - at) AS INTERVAL SECOND) AS DECIMAL(20, 6)) AS DOUBLE), "
        "CAST(CAST(at - INTERVAL '1 hour' AS TIMESTAMP) AS DOUBLE), "
        "CAST(CAST(day AS TIMESTAMP) AS DOUBLE), EXTRACT(YEAR FROM at) FROM t",
        [(1767225610.5, 49.5, 1767222010.5, 1767312000.0, 2026)],
    ),
    Translation(
        "SELECT AVG(EXTRACT(EPOCH FROM (later - at))) AS a, EXTRACT(EPOCH FROM max(later - at)) "
        "AS b, EXTRACT(EPOCH FROM max(later) - min(day)) AS c, "
        "EXTRACT(EPOCH FROM INTERVAL '1 min') AS d FROM t",
        "SELECT AVG(CAST(CAST(CAST((later - at) AS INTERVAL SECOND) AS DECIMAL(20, 6)) AS DOUBLE)) "
        "AS a, CAST(CAST(CAST(max(later - at) AS INTERVAL SECOND) AS DECIMAL(20, 6)) AS DOUBLE) "
        "AS b, CAST(CAST(CAST(max(later) - min(day) AS INTERVAL SECOND) AS DECIMAL(20, 6)) AS "
        "DOUBLE) AS c, CAST(CAST(CAST(INTERVAL '1 minute' AS INTERVAL SECOND) AS DECIMAL(20, 6)) "
        "AS DOUBLE) AS d FROM t",
        [(49.5, 49.5, -86340.0, 60.0)],
    ),
    Translation(
        "SELECT at + INTERVAL '50 sec' - INTERVAL '500 ms', at - INTERVAL '-1.5 hours', "
        "day + INTERVAL '1 mon', at + INTERVAL '02:00:00', at + INTERVAL 'PT1H', "
        "at < NOW() - INTERVAL '-36500 days', at + INTERVAL '1' HOUR FROM t",
        "SELECT at + INTERVAL '50 seconds' - INTERVAL '500 milliseconds', "
        "at - INTERVAL '-1 hour -30 minutes', "
        "day + INTERVAL '1 month', at + INTERVAL '2 hours', at + INTERVAL '1 hour', "
        "at < NOW() - INTERVAL '-36500 days', at + INTERVAL '1' HOUR FROM t",
        [
            (
                moment(1, 0),
                datetime(2026, 1, 1, 1, 30, 10, 500000),
                datetime(2026, 2, 2).date(),
                datetime(2026, 1, 1, 2, 0, 10, 500000),
                datetime(2026, 1, 1, 1, 0, 10, 500000),
                True,
                datetime(2026, 1, 1, 1, 0, 10, 500000),
            )
        ],
    ),
    # Windows
    Translation(
        "SELECT window.start, window.end, count(*) AS n FROM t "
        "GROUP BY tumble(INTERVAL '1 minute')",
        "SELECT window.start, window.end, count(*) AS n FROM t GROUP BY window(at, '1 minute')",
        [(moment(0, 0), moment(1, 0), 1)],
    ),
    Translation(
        "SELECT hop(INTERVAL '5 sec', INTERVAL '10' SECOND) AS window, count(*) AS n FROM t x "
        "WHERE id > 0 GROUP BY window",
        "SELECT window(at, '10 seconds', '5 seconds') AS window, count(*) AS n FROM t x "
        "WHERE id > 0 GROUP BY window",
        [((moment(0, 5), moment(0, 15)), 1), ((moment(0, 10), moment(0, 20)), 1)],
    ),
    Translation(
        "WITH w AS (SELECT at AS seen, id FROM t) SELECT s.end, n FROM "
        "(SELECT session('1 minute') AS s, count(*) AS n FROM w GROUP BY 1)",
        "WITH w AS (SELECT at AS seen, id FROM t) SELECT s.end, n FROM "
        "(SELECT session_window(seen, '1 minute') AS s, count(*) AS n FROM w GROUP BY 1)",
        [(datetime(2026, 1, 1, 0, 1, 10, 500000), 1)],
    ),
    Translation(
        "SELECT count(*) AS n FROM t a JOIN (SELECT id FROM t) b ON a.id = b.id "
        "GROUP BY tumble(INTERVAL '1 hour')",
        "SELECT count(*) AS n FROM t a JOIN (SELECT id FROM t) b ON a.id = b.id "
        "GROUP BY window(a.at, '1 hour')",
        [(1,)],
    ),
    Translation(
        "SELECT tumble(later, INTERVAL '1 hour').end AS e FROM t "
        "UNION ALL SELECT window(at, INTERVAL '1 day').start FROM t",
        "SELECT window(later, '1 hour').end AS e FROM t "
        "UNION ALL SELECT window(at, '1 day').start FROM t",
        [(datetime(2026, 1, 1, 1),), (moment(0, 0),)],
    ),
    # Lists
    Translation(
        "SELECT id, UNNEST(items) AS item FROM t",
        "SELECT id, explode(items) AS item FROM t",
        [(7, 1), (7, 2)],
    ),
    Translation(
        "SELECT unnest FROM (SELECT UNNEST(items) FROM t) WHERE unnest > 1",
        "SELECT unnest FROM (SELECT explode(items) AS unnest FROM t) WHERE unnest > 1",
        [(2,)],
    ),
    Translation(
        "SELECT id, item FROM t, UNNEST(t.items) AS item WHERE item > 1",
        "SELECT id, item FROM t, LATERAL explode(t.items) AS item(item) WHERE item > 1",
        [(7, 2)],
    ),
    Translation(
        "SELECT u.item, v.p, v.q, w.p FROM t CROSS JOIN UNNEST(items) AS u(item) "
        "CROSS JOIN UNNEST(parts) v(p, q) LEFT JOIN UNNEST(parts) w ON true WHERE u.item = 1",
        "SELECT u.item, v.p, v.q, w.p FROM t CROSS JOIN LATERAL explode(items) AS u(item) "
        "CROSS JOIN LATERAL inline(parts) v(p, q) LEFT JOIN LATERAL explode_outer(parts) w(w) "
        "WHERE u.item = 1",
        [(1, 1, "z", 1)],
    ),
    Translation(
        "SELECT id, u, v FROM t LEFT JOIN UNNEST(slice(items, 1, 0)) AS u ON TRUE "
        "LEFT OUTER JOIN LATERAL UNNEST(items) AS v(v) ON true JOIN UNNEST(items) ON true "
        "WHERE unnest = v",
        "SELECT id, u, v FROM t LEFT JOIN LATERAL explode_outer(slice(items, 1, 0)) AS u(u) "
        "LEFT OUTER JOIN LATERAL explode_outer(items) AS v(v) "
        "JOIN LATERAL explode(items) AS unnest(unnest) WHERE unnest = v",
        [(7, None, 1), (7, None, 2)],
    ),
    Translation(
        "SELECT u, ARRAY['a', 'b'] AS letters FROM UNNEST(ARRAY[1, 2]) AS u",
        "SELECT u, ARRAY('a', 'b') AS letters FROM explode(ARRAY(1, 2)) AS u(u)",
        [(1, ["a", "b"]), (2, ["a", "b"])],
    ),
    # Sharing out
    Translation(
        "SELECT count(*) FROM (SELECT explode(sequence(1, 1000)) AS id) "
        "WHERE MOD(hash(id), 2) = 0 OR MOD(hash(id), 2) = 1",
        "SELECT count(*) FROM (SELECT explode(sequence(1, 1000)) AS id) "
        "WHERE pmod(hash(id), 2) = 0 OR pmod(hash(id), 2) = 1",
        [(1000,)],
    ),
)

# What Spark has already, and must stay as it is.
UNCHANGED = (
    unchanged(
        "SELECT CAST(id AS VARCHAR(9)), id::numeric(9, 2), CAST(NULL AS VOID) FROM t",
        [("7", Decimal("7.00"), None)],
    ),
    unchanged(
        "SELECT CAST(array(1) AS ARRAY<STRING>), "
        "CAST('1 2:3' AS INTERVAL DAY TO MINUTE) IS NULL FROM t",
        [(["1"], False)],
    ),
    unchanged(
        "SELECT INTERVAL '1-2' YEAR TO MONTH > INTERVAL '13' MONTH, INTERVAL 3 HOURS > "
        "INTERVAL '2 hours 59 minutes' FROM t",
        [(True, True)],
    ),
    unchanged(
        "SELECT window(at, '1 minute', '30 seconds').start AS s, mod(id, 4), "
        "date_part('HOUR', at) FROM t WHERE at IS DISTINCT FROM later",
        [(moment(0, 0), 3, 0), (datetime(2025, 12, 31, 23, 59, 30), 3, 0)],
    ),
    unchanged(
        "SELECT 'x::TEXT -> ''a'' UNNEST(b)' AS `cast(a AS TEXT)`, r'a->b' FROM t -- doc->>'a'",
        [("x::TEXT -> 'a' UNNEST(b)", "a->b")],
    ),
    unchanged(
        "SELECT s.array, s.interval, json, session FROM (SELECT "
        "named_struct('array', 1, 'interval', 2) AS s, 3 AS json, 4 AS session)",
        [(1, 2, 3, 4)],
    ),
)
