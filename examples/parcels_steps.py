"""The step of parcels.yaml."""

from typing import Any

Message = dict[str, Any]

ZONES = {"home": ("DE",), "near": ("AT", "BE", "DK", "FR", "NL", "PL"), "far": ("CA", "JP", "US")}
CENTS_PER_KILO = {"home": 300, "near": 900, "far": 2500}


def price(messages: list[Message], *_args: Any, **_kwargs: Any) -> list[Message]:
    """Price each parcel. With `include_metadata` a message has `data` and `metadata`."""
    return [_priced(message["data"], message["metadata"]) for message in messages]


def _priced(parcel: Message, metadata: Message) -> Message:
    zone = _zone(parcel["country"])
    return {
        "parcel": parcel["parcel"],
        "zone": zone,
        "cents": round(CENTS_PER_KILO[zone] * parcel["grams"] / 1000),
        "at": parcel["at"],
        "record": f"{metadata['topic']}[{metadata['partition']}]@{metadata['offset']}",
    }


def _zone(country: str) -> str:
    for zone, countries in ZONES.items():
        if country in countries:
            return zone
    raise LookupError(f"no zone has the country {country}")
