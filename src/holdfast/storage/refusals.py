"""What a client of an object store says when it fails -> one sentence, and what to do about it.

A client hands on the whole answer of the server, which is a page of XML or JSON.
"""

import re

from holdfast.storage import urls

_STATUS = re.compile(r"non-2xx status code: (\d{3}(?: [A-Z][A-Za-z-]*)*)")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>")
_ANSWER_ENDS = "\n\nDebug source:"
_SIGNING_IN = "token request"
_WITHOUT_KEYS = (
    _SIGNING_IN,
    "Configuration key",
    "Invalid Access Key",
    "credential error",
    "must be specified",
)
_KEYS = {
    "s3": ("aws_access_key_id", "aws_secret_access_key"),
    "gs": ("google_service_account",),
}
_AZURE_KEYS = ("azure_storage_account_name", "azure_storage_account_key")


def explain(error: Exception) -> str:
    """What went wrong, in one line."""
    said = _get_message(error)
    status = _STATUS.search(said)
    if status:
        asked = "the server that gives out tokens" if _SIGNING_IN in said else "the server"
        code = _CODE.search(said)
        return f"{asked} answered with `{status[1]}`" + (f" (`{code[1]}`)" if code else "")
    return said.splitlines()[0] if said else type(error).__name__


def is_forbidden(error: Exception) -> bool:
    """Whether the server refuses this user."""
    status = _STATUS.search(_get_message(error))
    refused = status is not None and status[1].startswith(("401", "403"))
    return isinstance(error, PermissionError) or (
        refused and _SIGNING_IN not in _get_message(error)
    )


def make_hint(url: str, error: Exception) -> str:
    """What to do about it."""
    said = _get_message(error)
    if "No space left" in said or "quota" in said.lower():
        return f"make room on the disk of `{url}`, then start again"
    if any(words in said for words in _WITHOUT_KEYS):
        keys = _KEYS.get(urls.get_scheme(urls.to_rust_url(url)), _AZURE_KEYS)
        given = " ".join(f"--storage {key}=…" for key in keys)
        return f"say whose storage it is, as in `{given}`, or by `Pipeline(storage=…)`"
    return f"check that `{url}` exists and that this user may read and write it"


def _get_message(error: Exception) -> str:
    return str(error).partition(_ANSWER_ENDS)[0].strip()
