"""What a Kafka source makes of its records, in words, before its registry has been asked."""

from __future__ import annotations

from headrace.formats.options import Wanted
from headrace.model.evolution import Evolution
from headrace.sources.reader import decoded_as
from headrace.spec import Options

_NEW_SCHEMAS = {
    Evolution.ADDITIVE: "new fields become columns",
    Evolution.WIDEN: "new fields become columns, and types may become wider",
    Evolution.FREEZE: "no change of the schema is taken up",
}
_OTHERWISE = {"fail": "any other change stops it", "dlq": "messages of any other are bad records"}


def registered(wanted: Wanted, added: str, options: Options) -> str:
    """Of values by a registry; `added` are the columns that come from elsewhere."""
    registry = f" by {wanted.registry.words}" if wanted.registry is not None else ""
    columns = f"the columns of {', '.join(wanted.subjects) or 'its schemas'}"
    evolving = f"; {_NEW_SCHEMAS[Evolution(options['schema_evolution'])]}"
    evolving += f", {_OTHERWISE[options['on_incompatible_schema']]}"
    if wanted.schema is not None:
        columns, evolving = decoded_as(wanted.schema), ""
    return f"{wanted.format}{registry} into {columns}{added}{evolving}"
