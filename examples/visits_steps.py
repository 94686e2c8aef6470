"""The Python step of visits.yaml."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

BOTS = "(?i)bot|crawler|spider"


def clean(visits: DataFrame) -> DataFrame:
    """Take the parts of the address that are wanted, and mark what is no person."""
    return visits.select(
        f.lower(f.parse_url("url", f.lit("HOST"))).alias("site"),
        f.parse_url("url", f.lit("PATH")).alias("path"),
        f.parse_url("url", f.lit("QUERY"), f.lit("campaign")).alias("campaign"),
        f.coalesce(f.col("agent").rlike(BOTS), f.lit(False)).alias("is_bot"),
        "at",
    )
