"""`metadata` -> QueryMetadata.

    {"id":"0d4f3b0e-6c4b-4f6e-9a53-0d6a3c0f1b11"}        no version line

The id is the query id, and the only trace of the query to which a checkpoint belongs. This file may
have it in any case; everywhere else Spark writes it in lower case.
"""

import re

from holdfast.decode import log
from holdfast.model.checkpoint import QueryMetadata
from holdfast.model.fact import Unreadable
from holdfast.model.ids import QueryId

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def decode(data: bytes) -> QueryMetadata | Unreadable:
    """Return the query to which the checkpoint belongs, or why the file cannot be read."""
    whole = log.decode_text(data)
    if isinstance(whole, Unreadable):
        return whole
    if not whole.strip():
        return Unreadable(reason="empty")
    fields = log.parse_object(whole)
    if isinstance(fields, Unreadable):
        return fields
    query_id = fields.get("id")
    if not isinstance(query_id, str) or not _UUID.fullmatch(query_id):
        return Unreadable(reason=f"`{log.shorten(whole)}` has no `id` that is a UUID")
    return QueryMetadata(query_id=QueryId(query_id.lower()))
