"""The author's Python functions, on the driver's side: found, imported, and put into the plan.

`of_rows` calls one of a DataFrame, which only builds what Spark will do. `of_messages` has one of
messages called in Spark's Python workers, over Arrow batches (`runtime.message_function`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError
from headrace.formats import messages
from headrace.formats.carried import COLUMN
from headrace.model.pipeline import PythonRowsTransform, PythonTransform
from headrace.model.schema import Schema, quote
from headrace.runtime import message_function, modules
from headrace.runtime.message_function import DATA, METADATA, VARIANT, MessageFunction, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Step = PythonTransform | PythonRowsTransform


def of_rows(step: PythonTransform, rows: DataFrame) -> DataFrame:
    from pyspark.sql import DataFrame

    beside, function = load(step)
    # What is defined there may be called in Spark's workers, which could not import it.
    _ship(beside.loaded)
    result = function(rows)
    if not isinstance(result, DataFrame):
        returned = type(result).__name__
        raise _fault(step, f"{step.function} returned {returned}, and must return a DataFrame")
    return result


def of_messages(step: PythonRowsTransform, batch_size: int, rows: DataFrame) -> DataFrame:
    """The rows that come back, with the hidden column if there is one to carry."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructField, StructType

    beside, _ = load(step)
    back, required = _coming_back(step, rows)
    given, told = _types(rows.schema), _types(back)
    _refuse_variants(step, {**given, **told})
    shipped = _variants_as_text(back)
    zone = str(rows.sparkSession.conf.get("spark.sql.session.timeZone"))
    target = Target(to_arrow_type(shipped, timezone=zone), told, required)
    function = MessageFunction(
        step.name, step.function, beside, batch_size, target, frozenset(_variants(given))
    )
    _ship((message_function, modules))
    hidden = [COLUMN] if COLUMN in rows.columns else []
    fields = [StructField(DATA, shipped), *(rows.schema[name] for name in hidden)]
    called = _as_messages(rows).mapInArrow(function.task(), StructType(fields))
    made = {name: f"{DATA}.{quote(name)}" for name in back.names}
    made |= {name: f"parse_json({made[name]})" for name in _variants(told)}
    return called.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in made.items()), *hidden)


def load(step: Step) -> tuple[modules.Modules, Callable[[Any], object]]:
    """The function; modules are looked for beside the pipeline file first."""
    module = step.function.rpartition(".")[0]
    beside = modules.Modules.beside(step.span.file)
    try:
        function = beside.load(step.function)
    except (ImportError, AttributeError, SyntaxError) as error:
        hint = f"it must be a function in a module beside the pipeline file: {module}.py"
        raise _fault(step, f"{step.function} cannot be imported: {error}", hint) from error
    if not callable(function):
        raise _fault(step, f"{step.function} is no function")
    return beside, function


def _ship(loaded: Iterable[ModuleType]) -> None:
    """What is defined in these modules goes to the workers with whatever uses it."""
    from pyspark import cloudpickle

    for module in loaded:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _as_messages(rows: DataFrame) -> DataFrame:
    """The columns that a worker makes messages of."""
    columns = _columns(rows)
    own = {name: quote(name) for name in messages.data_columns(columns)}
    own |= {name: f"to_json({own[name]})" for name in _variants(_types(rows.schema)) if name in own}
    fields = ", ".join(f"{sql} AS {quote(name)}" for name, sql in own.items())
    data = "value" if messages.is_raw(columns) else f"struct({fields})"
    metadata = [METADATA] if messages.has_metadata(columns) else []
    hidden = [COLUMN] if COLUMN in rows.columns else []
    return rows.selectExpr(f"{data} AS {DATA}", *metadata, *hidden)


def _coming_back(step: PythonRowsTransform, rows: DataFrame) -> tuple[StructType, tuple[str, ...]]:
    """The columns of what comes back, and those that must have a value."""
    from pyspark.sql.types import StructType

    if step.schema is None:
        names = messages.returned_columns(_columns(rows))
        return StructType([rows.schema[name] for name in names]), ()
    schema = Schema.parse(step.schema)
    declared = StructType.fromDDL(schema.ddl())
    assert isinstance(declared, StructType)
    return declared, schema.required


def _columns(rows: DataFrame) -> tuple[str, ...]:
    return tuple(name for name in rows.columns if name != COLUMN)


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _variants(types: dict[str, str]) -> list[str]:
    return [name for name, kind in types.items() if kind == VARIANT]


def _variants_as_text(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    texts = _variants(_types(schema))
    return StructType([StructField(f.name, StringType()) if f.name in texts else f for f in schema])


def _refuse_variants(step: Step, types: dict[str, str]) -> None:
    """A whole column may be one; inside others there is no text that could stand for it."""
    for name, kind in types.items():
        if name != COLUMN and VARIANT in kind and kind != VARIANT:
            hint = f"make one of all of it in an SQL step: to_variant_object({quote(name)})"
            raise _fault(step, f"`{name}` has a VARIANT inside, and Python takes only whole", hint)


def _fault(step: Step, text: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError(f"step `{step.name}` at {step.span}: {text}", hint=hint)
