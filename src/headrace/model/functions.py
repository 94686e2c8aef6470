"""Functions of Spark SQL that decide what may be done with a query: by name, in lower case.

Taken from Spark's own registry; whatever is in none of these lists maps one row to one value.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# One value of many rows. The SQL parser knows most of them by itself, and not all.
AGGREGATES = _names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch
    covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric
    hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value
    listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev
    stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg
    try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer
    tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance vector_avg vector_sum
    """
)

# Any number of rows of one.
GENERATORS = _names(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack
    variant_explode variant_explode_outer
    """
)

# Times to stretches of time: a row may be in several of them, and without a time it is in none.
TIME_WINDOWS = frozenset({"window", "session_window"})

# What may stand in FROM with arguments; Delta adds functions that read any path, so by allow-list.
TABLE_FUNCTIONS = GENERATORS | {"range"}

# What reaches classes, files or names that only Spark could tell from inside an expression.
FORBIDDEN = _names(
    """
    from_protobuf identifier input_file_name java_method python_worker_logs read_files reflect
    to_protobuf try_reflect
    """
)

# What gives something else each time it is asked, also those that are called without brackets.
UNREPEATABLE = _names(
    """
    curdate current_date current_time current_timestamp localtime localtimestamp
    monotonically_increasing_id now rand randn random randstr shuffle spark_partition_id
    unix_timestamp uniform uuid
    """
)

# Columns that Spark makes up, and functions that are called without brackets.
BUILT_IN_COLUMNS = _names(
    """
    current_catalog current_database current_date current_time current_timestamp current_user
    grouping__id localtime localtimestamp now session_user session_window user window
    """
)
