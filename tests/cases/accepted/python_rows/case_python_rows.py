"""The function of this case: a list of messages in, a list out."""

from typing import Any


def rate(messages: list[dict[str, Any]], *_args: Any, **_kwargs: Any) -> list[dict[str, Any]]:
    return [
        {"user": message["user"], "minutes": message["seconds"] / message["pages"] / 60}
        for message in messages
    ]
